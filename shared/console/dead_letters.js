// Draws the dead-letter blobs of a subscription, and the events in one of them.

import { isExact, textOf } from "./exact_json.js";
import { button, counted, labelOf, moment, paged, row, table } from "./parts.js";
import { h } from "./preact.mjs";
import { resend, startReplay } from "./replays.js";
import { isOperator, run, setInView, state } from "./store.js";
import { answered } from "./timeline.js";

const PAGE = 20;

/** Read the newest blobs; a subscription without a destination has none, and says so. */
export async function readDeadLetters(api, path, signal) {
  try {
    return await api.get(`${path}/deadLetters`, { $top: PAGE }, signal);
  } catch (error) {
    if (error.status !== 404) throw error;
    return { value: [], nextLink: null, missing: error.message };
  }
}

export function deadLetters(path, route) {
  const newest = state.reads.deadLetters?.value;
  if (!newest) return null;
  if (newest.missing) return h("p", { class: "quiet" }, newest.missing);
  const older = state.view.older ?? { value: [], nextLink: newest.nextLink };
  const blobs = [...newest.value, ...older.value.filter((each) => !isIn(newest.value, each))];
  const more = () =>
    run("older", async (show) => {
      const token = new URL(older.nextLink).searchParams.get("$skiptoken");
      const page = await state.api.get(`${path}/deadLetters`, { $top: PAGE, $skipToken: token });
      show({ older: { value: [...older.value, ...page.value], nextLink: page.nextLink } });
      return `${counted(page.value.length, "older blob")}.`;
    });
  return [
    h("p", { class: "quiet" }, `Container ${newest.container} of storage account ${newest.account}`),
    table(
      "Dead letters",
      ["Written", "Events", "Reasons", "Blob", isOperator() && "Actions"].filter(Boolean),
      blobs.map((each) => blobRow(path, route, each)),
      "There are no dead letters.",
    ),
    older.nextLink && button("Show older ones", more),
    state.view.records && records(state.view.records, route),
  ];
}

function isIn(blobs, { blob }) {
  return blobs.some((each) => each.blob === blob);
}

function blobRow(path, route, { blob, writtenAt, events, reasons, fault }) {
  const open = () =>
    run(`show ${blob}`, async (show) => {
      const found = await state.api.deadLetters(path, blob);
      show({ records: { ...found, path }, recordPage: 0 });
      return `Showing ${counted(found.value.length, "dead letter")}.`;
    });
  const replay = () => run(`replay ${blob}`, () => startReplay(route, blob));
  const told = Object.entries(reasons).map(([reason, count]) => `${reason} (${count})`);
  const actions = h(
    "div",
    { class: "buttons" },
    button(labelOf("Show", blob), open, { isOff: Boolean(fault) }),
    button(labelOf("Replay", blob), replay, { isOff: Boolean(fault) }),
  );
  return row(
    blob,
    moment(writtenAt),
    events ?? "unknown",
    fault ? h("span", { class: "fault" }, fault) : told.join(", "),
    h("span", { class: "url" }, blob),
    ...(isOperator() ? [actions] : []),
  );
}

function records({ path, blob, value, nextLink }, route) {
  const { shown, pager } = paged("recordPage", value);
  const more = () =>
    run("more records", async (show) => {
      const token = new URL(nextLink).searchParams.get("$skiptoken");
      const page = await state.api.deadLetters(path, blob, token);
      show({ records: { ...page, path, value: [...value, ...page.value] } });
      return `${counted(page.value.length, "more dead letter")}.`;
    });
  return h(
    "div",
    { role: "group", "aria-label": "Dead letters in the blob", key: blob },
    h("h3", null, blob),
    !isExact() && h("p", { class: "quiet" }, "This browser shows numbers as JavaScript rounds them."),
    shown.map((each, number) => record(each, number, route, blob)),
    pager,
    nextLink && button("Read more of the blob", more),
  );
}

function record({ fault, reason, attempts, lastOutcome, lastStatus, lastAttemptAt, publishedAt, event }, number, route, blob) {
  if (fault) return h("p", { class: "fault", key: number }, fault);
  const last = [lastStatus, lastOutcome].filter(Boolean).join(" ");
  return h(
    "details",
    { class: "event", key: number, open: number === 0 },
    h(
      "summary",
      null,
      h("strong", null, textOf(event.id ?? "(no id)")),
      [event.eventType ?? event.type, event.subject].filter(Boolean).map((each) => ` · ${textOf(each)}`),
      h(
        "div",
        { class: "quiet" },
        reason,
        attempts !== null && ` after ${counted(attempts, "attempt")}`,
        last && `, the last: ${last}`,
        lastAttemptAt && [" at ", moment(lastAttemptAt)],
      ),
    ),
    lastAnswer(event.id, publishedAt),
    typeof event.id === "string" &&
      h(
        "div",
        { class: "buttons" },
        button(labelOf("Resend", event.id), () => run(`resend ${event.id}`, () => resend(route, event.id, blob))),
        button(labelOf("Check", event.id), () => check(event)),
      ),
    h("pre", { tabIndex: 0, "aria-label": `Event ${number + 1}` }, JSON.stringify(event, null, 2)),
  );
}

/** Put an event into the form that says whether it matches. */
function check(event) {
  setInView("candidate", JSON.stringify(event, null, 2));
  document.querySelector("[aria-labelledby=panel-does-it-match-] textarea").focus();
}

/** What the endpoint answered last, if the attempts of the event are among the latest that are shown. */
function lastAnswer(eventId, publishedAt) {
  const events = state.reads.events?.value?.value ?? [];
  const isIt = (each) => each.eventId === textOf(eventId) && each.publishedAt === publishedAt;
  const answer = events.find(isIt)?.attempts.at(-1)?.answer;
  return answer && answered(answer);
}
