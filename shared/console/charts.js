// Draws what was counted in the last hour, a bar a minute, with the same in words.

import { h } from "./preact.mjs";
import { CLOCK } from "./parts.js";

const HEIGHT = 48;
const BAR = 4; // with the gap after it

// What is shown of each kind of resource: our name, the metric's name, and how it is summed up.
const COUNTS = { aggregation: "total", unit: "" };
const MILLISECONDS = { aggregation: "average", unit: " ms" };
const OF_SUBSCRIPTION = {
  Delivered: [COUNTS, "DeliverySuccessCount", "SuccessfulReceivedEvents"],
  "Failed attempts": [COUNTS, "DeliveryAttemptFailCount", "FailedReceivedEvents"],
  "Time to answer": [MILLISECONDS, "DestinationProcessingDurationInMs", "DestinationProcessingDurationMs"],
};
const CHARTS = {
  topic: { Published: [COUNTS, "PublishSuccessCount", "SuccessfulPublishedEvents"], ...OF_SUBSCRIPTION },
  subscription: {
    ...OF_SUBSCRIPTION,
    "Given up": [COUNTS, "DeadLetteredCount,DroppedEventCount", "DeadLetteredCount,DroppedEventCount"],
  },
};

/** Read the charts of a resource; kind: "topic" or "subscription". */
export async function readCharts(api, kind, topic, path, signal) {
  const names = Object.values(CHARTS[kind]).map((each) => each[isOfNamespace(topic) ? 2 : 1]);
  const found = await api.metrics(
    path,
    { metricnames: names.join(","), aggregation: "Total,Average", interval: "PT1M" },
    signal,
  );
  const points = Object.fromEntries(found.value.map((each) => [each.name.value, each.timeseries[0].data]));
  return Object.entries(CHARTS[kind]).map(([title, [form]], number) => ({
    title,
    ...form,
    points: summed(names[number].split(",").map((name) => points[name]), form.aggregation),
  }));
}

/** Add the charts of several topics up; times to answer are averaged over topics. */
export function together(lists) {
  const [first, ...others] = lists;
  return (first ?? []).map((chart, number) => {
    const all = [chart, ...others.map((each) => each[number])].map((each) => each.points);
    const points = chart.points.map(({ at }, minute) => {
      const values = all.map((each) => each[minute]?.value ?? 0).filter(Boolean);
      const sum = values.reduce((a, b) => a + b, 0);
      const isMean = chart.aggregation === "average" && values.length > 0;
      return { at, value: isMean ? sum / values.length : sum };
    });
    return { ...chart, points };
  });
}

export function charts(found) {
  return h("div", { class: "charts" }, found.map(chart));
}

function isOfNamespace(topic) {
  return topic.name.includes(".");
}

function summed(series, aggregation) {
  return series[0].map((point, minute) => ({
    at: new Date(point.timeStamp),
    value: series.reduce((sum, each) => sum + (each[minute][aggregation] ?? 0), 0),
  }));
}

function chart({ title, unit, aggregation, points }) {
  const highest = points.reduce((best, each) => (each.value > best.value ? each : best), points[0]);
  const shown = (value) => `${Math.round(value).toLocaleString()}${unit}`;
  const bars = points.map(({ at, value }, number) => {
    const height = value ? Math.max((value / highest.value) * HEIGHT, 1) : 0;
    return h(
      "rect",
      { key: number, x: number * BAR, y: HEIGHT - height, width: BAR - 1, height },
      h("title", null, `${clock(at)}: ${shown(value)}`),
    );
  });
  return h(
    "figure",
    { key: title },
    h(
      "svg",
      {
        viewBox: `0 0 ${points.length * BAR} ${HEIGHT}`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      bars,
    ),
    h("figcaption", null, h("strong", null, `${title}: `), inWords(points, highest, aggregation, shown)),
  );
}

function inWords(points, highest, aggregation, shown) {
  if (!highest?.value) return "none in the last hour";
  const most = `, at ${clock(highest.at)}`;
  if (aggregation === "average") {
    const latest = points.findLast((each) => each.value);
    return `${shown(latest.value)} at ${clock(latest.at)}; longest ${shown(highest.value)}${most}`;
  }
  const total = points.reduce((sum, each) => sum + each.value, 0);
  return `${shown(total)} in the last hour; most in a minute ${shown(highest.value)}${most}`;
}

function clock(at) {
  return at.toLocaleTimeString(undefined, { hour: CLOCK.hour, minute: CLOCK.minute });
}
