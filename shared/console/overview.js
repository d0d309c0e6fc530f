// Draws the overview: health, queues, topics and all subscriptions.

import { charts, readCharts, together } from "./charts.js";
import { badge, duration, link, moment, panel, pathOf, row, stateOf, table } from "./parts.js";
import { h } from "./preact.mjs";
import { state } from "./store.js";
import { everySubscription, subscriptionList } from "./subscriptions.js";
import { timelines } from "./timeline.js";

const MOST_TOPICS = 10; // whose rates are read
const MOST_SUBSCRIPTIONS = 20; // whose failures are read
const MOST_FAILURES = 10; // that are shown
const LOOKS = { healthy: "good", degraded: "warn", unhealthy: "bad" };

export function overviewReads(api) {
  return {
    topics: [(signal) => api.topics(signal), 5],
    health: [(signal) => api.health(signal), 5],
    rates: [(signal) => readRates(api, signal), 10],
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
    panel("Health", ["health"], health(state.reads.health?.value)),
    panel("The last hour", ["rates"], rates(topics)),
    panel("Latest failures", ["failures"], failures(state.reads.failures?.value)),
    panel("Topics", ["topics"], topicTable(topics)),
    panel(
      "Subscriptions",
      ["topics"],
      subscriptionList(everySubscription(topics), { hasTopic: true }),
    ),
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

function health(found) {
  if (!found) return null;
  const queues = Object.entries(found.queues ?? {}).map(([name, each]) =>
    row(name, name, each.messages, each.oldestSeconds === null ? "–" : duration(each.oldestSeconds)),
  );
  const timers = Object.entries(found.timers ?? {}).map(([name, each]) =>
    row(name, name, moment(each.lastRun), each.failed.join(", ") || "–"),
  );
  return [
    h("p", null, badge({ word: found.status, look: LOOKS[found.status] ?? "warn" })),
    found.reasons.length > 0 && h("ul", null, found.reasons.map((each) => h("li", null, each))),
    h(
      "div",
      { class: "columns" },
      table("Queues", ["Queue", "Messages", "Oldest overdue by"], queues, "There are no queues yet."),
      table("Timers", ["Timer", "Last recorded run", "Failed"], timers, "No timer has run yet."),
    ),
  ];
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
