// Reads how endpoints did in the last hour: how many attempts succeeded, and how long answers took.

import { duration } from "./parts.js";
import { state } from "./store.js";

const NAMES = ["DeliverySuccessCount", "DeliveryAttemptFailCount", "DestinationProcessingDurationInMs"];
const OF_NAMESPACE = ["SuccessfulReceivedEvents", "FailedReceivedEvents", "DestinationProcessingDurationMs"];

/** Read the rates of all subscriptions of topics, by the topic's and the subscription's name. */
export async function readEndpoints(api, topics, signal) {
  const found = await Promise.all(topics.map((topic) => readTopic(api, topic, signal)));
  return Object.assign({}, ...found);
}

async function readTopic(api, topic, signal) {
  const names = topic.name.includes(".") ? OF_NAMESPACE : NAMES;
  const { value } = await api.metrics(
    topic.id,
    {
      metricnames: names.join(","),
      aggregation: "Total,Average,Maximum",
      interval: "FULL",
      $filter: "EventSubscriptionName eq '*'",
    },
    signal,
  );
  const found = {};
  for (const { name, timeseries } of value) {
    for (const { metadatavalues, data } of timeseries) {
      const key = keyOf(topic.name, metadatavalues[0].value);
      found[key] = { ...found[key], [names.indexOf(name.value)]: data[0] };
    }
  }
  return found;
}

function keyOf(topic, subscription) {
  return `${topic}/${subscription}`.toLowerCase();
}

/** The success rate and the time to answer of a subscription's endpoint, in words. */
export function endpointRates(topic, subscription) {
  const [succeeded, failed, times] = NAMES.map((_, number) => state.reads.endpoints?.value?.[keyOf(topic, subscription)]?.[number]);
  const attempts = (succeeded?.total ?? 0) + (failed?.total ?? 0);
  if (!attempts) return { success: "–", answers: "–" };
  const share = Math.floor((1000 * (succeeded?.total ?? 0)) / attempts) / 10; // only what is whole is 100 %
  const mean = times?.average ? `${duration(times.average / 1000)}; longest ${duration(times.maximum / 1000)}` : "–";
  return { success: `${share} % of ${attempts.toLocaleString()}`, answers: mean };
}
