// Draws the overview: what is wrong, rates, failures, topics and all subscriptions; queues and timers folded.

import { charts, readCharts, together } from "./charts.js";
import { badge, counted, duration, isStale, link, moment, panel, pathOf, row, stateOf, table, troubleState } from "./parts.js";
import { h } from "./preact.mjs";
import { readEndpoints } from "./rates.js";
import { state } from "./store.js";
import { everySubscription, subscriptionList } from "./subscriptions.js";
import { timelines } from "./timeline.js";

const MOST_TOPICS = 10; // whose rates are read
const MOST_SUBSCRIPTIONS = 20; // whose failures are read
const MOST_FAILURES = 10; // that are shown
const MOST_TROUBLES = 20; // that are shown
const LOOKS = { healthy: "good", degraded: "warn", unhealthy: "bad" };

export function overviewReads(api) {
  return {
    topics: [(signal) => api.topics(signal), 5],
    health: [(signal) => api.health(signal), 5],
    rates: [(signal) => readRates(api, signal), 10],
    endpoints: [(signal) => readEndpoints(api, readableTopics().slice(0, MOST_TOPICS), signal), 10],
    failures: [(signal) => readFailures(api, signal), 10],
  };
}

function readableTopics() {
  return (state.reads.topics?.value?.value ?? []).filter((each) => each.isReadable);
}

async function readRates(api, signal) {
  const topics = readableTopics().slice(0, MOST_TOPICS);
  return together(
    await Promise.all(topics.map((each) => readCharts(api, "topic", each, each.id, signal))),
  );
}

/** Read the latest failed attempts by event: of endpoints that are held, then of the others. */
async function readFailures(api, signal) {
  const pairs = everySubscription(readableTopics()).filter(([, each]) => each.isReadable);
  const chosen = pairs.toSorted(([, a], [, b]) => Boolean(b.held) - Boolean(a.held));
  const found = await Promise.all(
    chosen.slice(0, MOST_SUBSCRIPTIONS).map(async ([topic, { name, id }]) => {
      const { value } = await api.get(`${id}/failures`, { $top: MOST_FAILURES }, signal);
      const where = { name: `${topic.name}/${name}`, path: pathOf(topic.name, name) };
      return value.map((attempt) => ({ attempt, where }));
    }),
  );
  const byTime = found.flat().toSorted((a, b) => (a.attempt.at < b.attempt.at ? 1 : -1));
  return { of: pairs.length, events: byEvent(byTime.slice(0, MOST_FAILURES)) };
}

/** Arrange attempts, the latest first, as the timelines of their events. */
function byEvent(attempts) {
  const events = new Map();
  for (const { attempt, where } of attempts) {
    const { systemId, eventId, state: word, reason, why, at } = attempt;
    const end = word && { state: word, reason, why, at };
    const known = events.get(systemId) ?? { event: { systemId, eventId, attempts: [], end }, where };
    known.event.attempts.unshift(attempt);
    events.set(systemId, known);
  }
  return [...events.values()];
}

export function overview() {
  const topics = state.reads.topics?.value?.value ?? [];
  return [
    panel("What is wrong", ["health", "topics"], wrong(state.reads.health, state.reads.topics)),
    panel("The last hour", ["rates"], rates(topics)),
    panel("Latest failures", ["failures"], failures(state.reads.failures?.value)),
    panel("Topics", ["topics"], topicTable(topics)),
    panel(
      "Subscriptions",
      ["topics"],
      subscriptionList(everySubscription(topics), { hasTopic: true }),
    ),
    panel("Queues and timers", ["health"], machinery(state.reads.health?.value)),
  ];
}

function rates(topics) {
  const note = `Of the first ${MOST_TOPICS} of ${topics.length} topics.`;
  return [
    charts(state.reads.rates?.value ?? []),
    topics.length > MOST_TOPICS && h("p", { class: "quiet" }, note),
  ];
}

function failures(found) {
  if (!found) return null;
  const note = `Of ${MOST_SUBSCRIPTIONS} of ${found.of} subscriptions; held ones come first.`;
  return [
    found.events.length
      ? timelines(found.events)
      : h("p", { class: "quiet" }, "No failed attempt is recorded in the last hour."),
    found.of > MOST_SUBSCRIPTIONS && h("p", { class: "quiet" }, note),
  ];
}

/** What is wrong, the most harmful first; a subscription's troubles and health are one word together. */
function wrong(health, topics) {
  if (!health?.value || !topics?.value) return null;
  const { status, reasons } = health.value;
  const { troubles, waiting } = topics.value;
  const word = troubles.length && status === "healthy" ? "degraded" : status;
  const shown = isStale(health) || isStale(topics) ? `was ${word}` : word;
  const more = troubles.length - MOST_TROUBLES;
  return [
    h("p", null, badge({ word: shown, look: LOOKS[word] ?? "warn" }), " ", waitingText({ ...waiting, waiting: waiting.events })),
    reasons.length > 0 && h("ul", null, reasons.map((each) => h("li", { key: each }, each))),
    troubles.length > 0 && h("ol", { class: "troubles" }, troubles.slice(0, MOST_TROUBLES).map(trouble)),
    more > 0 && h("p", { class: "quiet" }, `${more} more: see the subscriptions below that are not delivering.`),
  ];
}

function trouble(found) {
  const { topic, subscription, kind, also, since, why, remedy } = found;
  return h(
    "li",
    { key: `${topic}/${subscription}` },
    h(
      "p",
      null,
      [kind, ...also].map((each) => [badge(troubleState(each)), " "]),
      h("strong", null, link(pathOf(topic, subscription), `${topic}/${subscription}`)),
      since && [" since ", moment(since)],
      "; ",
      waitingText(found),
    ),
    why && h("p", { class: "url" }, why),
    h("p", { class: "quiet" }, "Remedy: ", h("code", null, remedy)),
  );
}

function waitingText({ waiting, oldestSeenSeconds, awaitingBlob, blobsDueSeconds }) {
  const text = `${counted(waiting, "event")} ${waiting === 1 ? "waits" : "wait"}`;
  const oldest = oldestSeenSeconds === null ? "" : `, the oldest seen is ${duration(oldestSeenSeconds)} old`;
  if (!awaitingBlob) return `${text}${oldest}`;
  const due = duration(blobsDueSeconds);
  return `${text}${oldest}; ${awaitingBlob} given up, due to be dead-lettered or dropped within ${due}`;
}

/** Queues and timers, which matter where what is wrong is not an endpoint. */
function machinery(found) {
  if (!found) return null;
  const queues = Object.entries(found.queues ?? {}).map(([name, each]) =>
    row(name, name, each.messages, each.oldestSeconds === null ? "–" : duration(each.oldestSeconds)),
  );
  const timers = Object.entries(found.timers ?? {}).map(([name, each]) =>
    row(name, name, moment(each.lastRun), each.failed.join(", ") || "–"),
  );
  return h(
    "details",
    null,
    h("summary", null, `${counted(queues.length, "queue")}, ${counted(timers.length, "timer")}`),
    h(
      "div",
      { class: "columns" },
      table("Queues", ["Queue", "Messages", "Oldest overdue by"], queues, "There are no queues yet."),
      table("Timers", ["Timer", "Last recorded run", "Failed"], timers, "No timer has run yet."),
    ),
  );
}

function topicTable(topics) {
  const rows = topics.map((topic) => {
    const trouble = topic.subscriptions.filter((each) => stateOf(each).word !== "delivering").length;
    return row(
      topic.name,
      link(pathOf(topic.name), topic.name),
      topic.isReadable ? topic.inputSchema : badge({ word: "damaged", look: "bad" }),
      topic.subscriptions.length,
      trouble ? badge({ word: String(trouble), look: "warn" }) : "0",
    );
  });
  const columns = ["Topic", "Schema", "Subscriptions", "Not delivering"];
  return table("Topics", columns, rows, "There are no topics yet.");
}
