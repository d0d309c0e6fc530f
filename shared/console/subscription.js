// Draws a subscription: its state, buttons, rates, events, forecast and dead letters.

import { buttons, testResult } from "./actions.js";
import { charts, readCharts } from "./charts.js";
import { deadLetters, readDeadLetters } from "./dead_letters.js";
import { forecast } from "./forecast.js";
import { badge, choice, endpointOf, panel, stateOf } from "./parts.js";
import { h } from "./preact.mjs";
import { readReplays, replays, replaysPause } from "./replays.js";
import { state } from "./store.js";
import { hasFailed, timelines } from "./timeline.js";
import { readableTopic, topicOf, unknownTopic } from "./topic.js";

const EVENTS = 50;

function pathTo({ topic, subscription }) {
  const { id, subscriptions } = readableTopic(topic);
  const listed = subscriptions.find((each) => sameName(each.name, subscription));
  return listed?.id ?? `${id}/eventSubscriptions/${subscription}`;
}

export function subscriptionReads(api, route) {
  const events = (signal) => api.get(`${pathTo(route)}/attempts`, { $top: EVENTS }, signal);
  const rates = (signal) =>
    readCharts(api, "subscription", readableTopic(route.topic), pathTo(route), signal);
  const blobs = (signal) => readDeadLetters(api, pathTo(route), signal);
  return {
    topics: [(signal) => api.topics(signal), 5],
    events: [events, 3],
    rates: [rates, 10],
    deadLetters: [blobs, 5],
    replays: [(signal) => readReplays(api, route, signal), replaysPause],
  };
}

export function subscriptionView(route) {
  const topic = topicOf(route.topic);
  if (!topic) return unknownTopic(route.topic);
  const listed = topic.subscriptions.find((each) => sameName(each.name, route.subscription));
  const path = topic.isReadable && listed ? pathTo(route) : null;
  return [
    panel("State", ["topics"], now(path, listed, route)),
    listed && panel("The last hour", ["rates"], charts(state.reads.rates?.value ?? [])),
    (listed || state.reads.events?.value) && panel("Latest events", ["events"], eventList()),
    path && panel("Forecast", [], forecast(path)),
    path && panel("Dead letters", ["deadLetters"], deadLetters(path, route)),
    path && panel("Replays", ["replays"], replays(route)),
  ];
}

function sameName(one, other) {
  return one.toLowerCase() === other.toLowerCase();
}

function now(path, listed, { topic, subscription }) {
  if (!listed) return h("p", null, `There is no event subscription ${subscription} of topic ${topic}.`);
  // The state beside the events is read more often than the list.
  const latest = { ...listed, ...state.reads.events?.value?.state };
  const found = stateOf(latest);
  return [
    h("p", null, badge(found), " ", h("span", { class: "why" }, found.why)),
    path && buttons(path, latest),
    testResult(),
    h(
      "dl",
      null,
      fact("Endpoint", h("span", { class: "url" }, endpointOf(listed))),
      fact("Dead letters", whereTo(latest.deadLetter)),
      Object.entries(latest.counts ?? {}).map(([name, count]) => fact(LABELS[name] ?? name, count)),
    ),
  ];
}

const LABELS = {
  PublishSuccessCount: "Published to the topic in the last 7 days",
  UnmatchedEventCount: "Matched no subscription",
  MatchedEventCount: "Matched this one",
  DeliverySuccessCount: "Delivered, replayed events included",
  DeadLetteredCount: "Dead-lettered",
  DroppedEventCount: "Dropped",
};

function fact(name, text) {
  return h("div", { key: name }, h("dt", null, name), h("dd", null, text));
}

function whereTo(destination) {
  if (destination === undefined) return "";
  return destination ? `container ${destination.container} of ${destination.account}` : "none: events that end are dropped";
}

function eventList() {
  const found = (state.reads.events?.value?.value ?? []).toReversed();
  const isWanted = state.view.events === "failed" ? hasFailed : () => true;
  const events = found.filter(isWanted).map((event) => ({ event, where: null }));
  return [
    choice("Show", "events", [
      ["all", "all that are recorded"],
      ["failed", "with failed attempts"],
    ]),
    events.length
      ? timelines(events, (event) => event === found.find(hasFailed))
      : h(
          "p",
          { class: "quiet" },
          "Nothing is recorded. Events delivered at once are recorded only if PUSHGRID_ATTEMPT_LOG is all.",
        ),
  ];
}
