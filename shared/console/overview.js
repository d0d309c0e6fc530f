// Draws the overview: health, queues, topics and all subscriptions.

import { badge, duration, link, moment, panel, pathOf, row, stateOf, table } from "./parts.js";
import { h } from "./preact.mjs";
import { state } from "./store.js";
import { everySubscription, subscriptionList } from "./subscriptions.js";

const LOOKS = { healthy: "good", degraded: "warn", unhealthy: "bad" };

export function overviewReads(api) {
  return { topics: [(signal) => api.topics(signal), 5], health: [(signal) => api.health(signal), 5] };
}

export function overview() {
  const topics = state.reads.topics?.value?.value ?? [];
  return [
    panel("Health", ["health"], health(state.reads.health?.value)),
    panel("Topics", ["topics"], topicTable(topics)),
    panel(
      "Subscriptions",
      ["topics"],
      subscriptionList(everySubscription(topics), { hasTopic: true }),
    ),
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
      table("Queues", ["Queue", "Messages", "Oldest is late by"], queues, "There are no queues yet."),
      table("Timers", ["Timer", "Last run", "Failed"], timers, "No timer has run yet."),
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
