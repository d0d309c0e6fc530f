// Draws the form that replays a subscription's dead letters, and its replays.

import { badge, button, counted, field, labelOf, moment, row, table } from "./parts.js";
import { h } from "./preact.mjs";
import { isOperator, run, setInView, state } from "./store.js";
import { readableTopic } from "./topic.js";

const DEFAULT_RATE = 50; // events a second
const CONFIRMATION = "confirm-replay";
const RUNNING = "Running";
const LOOKS = { [RUNNING]: "warn", Done: "good", Cancelled: "off", Failed: "bad" };

/** How many seconds to wait before they are read again. */
export function replaysPause(jobs = []) {
  return jobs.some((job) => job.state === RUNNING) ? 3 : 10;
}

/** Read the latest replays from or to a subscription. */
export async function readReplays(api, { topic, subscription }, signal) {
  const { value } = await api.get(`${providerOf(topic)}/replays`, {}, signal);
  const wanted = `${topic}/${subscription}`.toLowerCase();
  const isWanted = (key) => key && `${key.topic}/${key.subscription}`.toLowerCase() === wanted;
  return value.filter((job) => [...job.sources, job.to].some(isWanted));
}

/** Start a replay of the subscription's dead letters in blobs whose names begin with prefix. */
export async function startReplay({ topic, subscription }, prefix, isDryRun = false) {
  const { reason, rate, again, unproven } = state.view;
  const job = await state.api.act(providerOf(topic), "replays", {
    topic: readableTopic(topic).name,
    subscription,
    prefix,
    dryRun: isDryRun,
    ...(reason && { reason }),
    ...(rate && { rate: Number(rate) }),
    again: Boolean(again),
    unproven: Boolean(unproven),
  });
  return `${isDryRun ? "Dry run" : "Replay"} ${job.id} started.`;
}

/** Send the dead letters of one event again, also if they were before; blob: only the one in it. */
export async function resend({ topic, subscription }, event, blob = "") {
  const job = await state.api.act(providerOf(topic), "replays", {
    topic: readableTopic(topic).name,
    subscription,
    prefix: blob,
    event,
    again: true,
    unproven: Boolean(state.view.unproven),
  });
  return `Replay ${job.id} sends it again.`;
}

export function replays(route) {
  const jobs = state.reads.replays?.value;
  if (!jobs) return null;
  return [
    isOperator() && form(route),
    table(
      "Replays",
      ["Started", "State", "Blobs", "Events", "Sent", "Skipped", "By", "Actions"],
      jobs.map((job) => jobRow(route.topic, job)),
      "There are no replays of this subscription.",
    ),
  ];
}

/** The path of the operator API, in the resource group of a topic. */
function providerOf(topic) {
  const [group] = readableTopic(topic).id.split("/providers/");
  return `${group}/providers/Microsoft.EventGrid`;
}

function form(route) {
  const start = (isDryRun) => run("replay", () => startReplay(route, "", isDryRun));
  const confirm = (event) => {
    event.preventDefault();
    document.getElementById(CONFIRMATION).showModal();
  };
  return [
    fields(confirm, () => start(true)),
    confirmation(route, () => start(false)),
  ];
}

function fields(onSubmit, count) {
  return h(
    "form",
    { class: "fields", onSubmit },
    field("Only with the reason", "reason", { placeholder: "any" }),
    field("Events a second", "rate", { type: "number", min: 1, max: 1000, placeholder: DEFAULT_RATE }),
    check("Also those replayed before", "again"),
    check("Also CloudEvents that may be of another topic", "unproven"),
    button("Replay all …"),
    button("Count only", count),
  );
}

function check(label, name) {
  return h(
    "label",
    { class: "check" },
    h("input", {
      type: "checkbox",
      checked: Boolean(state.view[name]),
      onChange: (event) => setInView(name, event.target.checked),
    }),
    h("span", null, label),
  );
}

/** The question that "Replay all" asks first. */
function confirmation({ topic, subscription }, start) {
  const { reason, rate, again } = state.view;
  const closing = (then) => (event) => {
    event.target.closest("dialog").close(); // which gives the focus back
    then();
  };
  return h(
    "dialog",
    { id: CONFIRMATION, "aria-labelledby": `${CONFIRMATION}-title`, "aria-describedby": `${CONFIRMATION}-text` },
    h("h3", { id: `${CONFIRMATION}-title` }, "Replay all dead letters?"),
    h(
      "p",
      { id: `${CONFIRMATION}-text` },
      `${wanted(reason)} will be sent again to ${topic}/${subscription}, at most ${rate || DEFAULT_RATE} events a second. `,
      again ? "Those replayed before are sent once more." : "Those replayed before are left out.",
    ),
    h(
      "div",
      { class: "fields" },
      button("Send them", closing(start), { class: "primary" }),
      button("Keep them", closing(() => {}), { autofocus: true }),
    ),
  );
}

/** What a replay of all would send, counted as far as the blobs are known. */
function wanted(reason) {
  const { value = [], nextLink } = state.reads.deadLetters?.value ?? {};
  const which = reason ? ` with the reason ${reason}` : "";
  if (nextLink) return `All dead letters${which}, in more than ${counted(value.length, "blob")},`;
  if (value.some((each) => each.events === null)) {
    return `All dead letters${which}, in ${counted(value.length, "blob")},`;
  }
  const events = value.reduce((sum, each) => sum + (reason ? (each.reasons[reason] ?? 0) : each.events), 0);
  return `${counted(events, "dead letter")}${which}, in ${counted(value.length, "blob")},`;
}

function jobRow(topic, job) {
  const word = job.dryRun ? `${job.state}, counts only` : job.state;
  const cancel = () =>
    run(`cancel ${job.id}`, async () => {
      await state.api.act(`${providerOf(topic)}/replays/${job.id}`, "cancel");
      return `${job.id} is cancelled; what it has sent is delivered.`;
    });
  const skipped = Object.entries(job.skipped).map(([why, count]) => `${why} (${count})`);
  const faults = job.faults.map(({ where, why }) => (why ? `${where}: ${why}` : where));
  return row(
    job.id,
    moment(job.startedAt),
    [badge({ word, look: LOOKS[job.state] }), job.why && ` ${job.why}`],
    job.blobs,
    job.events,
    sent(job),
    [
      skipped.join(", ") || 0,
      faults.length > 0 && h("ul", { class: "fault" }, faults.map((each) => h("li", { key: each }, each))),
      job.moreFaults > 0 && `${job.moreFaults} more are not named.`,
    ],
    job.by,
    job.state === RUNNING &&
      isOperator() &&
      h("div", { class: "buttons" }, button(labelOf("Cancel", job.id), cancel)),
  );
}

/** What a replay has sent, or a dry run would send. */
function sent({ dryRun, replayed, repeated }) {
  if (dryRun) return `none; would send ${replayed}`;
  return repeated ? `${replayed}, and ${repeated} repeated` : replayed;
}
