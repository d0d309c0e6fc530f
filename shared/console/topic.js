// Draws a topic: its rates, its subscriptions, and a form to publish to it.

import { charts, readCharts } from "./charts.js";
import { link, panel } from "./parts.js";
import { h } from "./preact.mjs";
import { publishForm } from "./publish.js";
import { readEndpoints } from "./rates.js";
import { isOperator, state } from "./store.js";
import { subscriptionList } from "./subscriptions.js";

/** The topic of a name as `status/topics` answers it, ignoring case. */
export function topicOf(name) {
  const topics = state.reads.topics?.value?.value ?? [];
  return topics.find((each) => each.name.toLowerCase() === name.toLowerCase());
}

/** Return the topic of a name, or throw what to tell. */
export function readableTopic(name) {
  const found = topicOf(name);
  if (!found) throw new Error(noTopic(name));
  if (!found.isReadable) throw new Error(`The row of topic ${name} can't be read.`);
  return found;
}

function noTopic(name) {
  return `There is no topic ${name}.`;
}

/** What is shown in place of a topic that does not exist. */
export function unknownTopic(name) {
  return panel("Unknown topic", ["topics"], h("p", null, noTopic(name), " ", link("#/", "Show all topics")));
}

export function topicReads(api, { topic }) {
  const rates = (signal) => {
    const found = readableTopic(topic);
    return readCharts(api, "topic", found, found.id, signal);
  };
  const endpoints = (signal) => readEndpoints(api, [readableTopic(topic)], signal);
  return { topics: [(signal) => api.topics(signal), 5], rates: [rates, 10], endpoints: [endpoints, 10] };
}

/** Whether it is the topic of a storage account, to which nobody publishes. */
function isAccount({ id }) {
  return id.includes("/providers/Microsoft.Storage/");
}

export function topicView({ topic }) {
  const found = topicOf(topic);
  if (!found) return unknownTopic(topic);
  const pairs = found.subscriptions.map((each) => [found, each]);
  return [
    panel("The last hour", ["rates"], charts(state.reads.rates?.value ?? [])),
    panel("Subscriptions", ["topics"], subscriptionList(pairs, { hasTopic: false })),
    found.isReadable && !isAccount(found) && isOperator() && panel("Publish a test event", [], publishForm(found)),
  ];
}
