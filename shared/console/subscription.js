// Draws a subscription: its state, buttons, rates, events, configuration, forecast and dead letters.

import { buttons, testResult } from "./actions.js";
import { charts, readCharts } from "./charts.js";
import { configuration, examplesOf, read } from "./configuration.js";
import { deadLetters, readDeadLetters } from "./dead_letters.js";
import { forecast } from "./forecast.js";
import { matching } from "./matching.js";
import { badge, button, choice, endpointOf, labelOf, panel, stateOf } from "./parts.js";
import { h } from "./preact.mjs";
import { endpointRates, readEndpoints } from "./rates.js";
import { readReplays, replays, replaysPause, resend } from "./replays.js";
import { change, isOperator, run, state } from "./store.js";
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
  const configured = async (signal) => {
    const found = read(await api.get(pathTo(route), {}, signal));
    const { name } = readableTopic(route.topic);
    const known = state.reads.configuration?.value?.examples;
    const examples = { topic: name, name: route.subscription, ...known, ...examplesOf(found) };
    change({ examples });
    return { found, examples };
  };
  const endpoints = (signal) => readEndpoints(api, [readableTopic(route.topic)], signal);
  return {
    topics: [(signal) => api.topics(signal), 5],
    configuration: [configured, 10],
    endpoints: [endpoints, 10],
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
    listed && panel("The last hour", ["rates", "endpoints"], rates(topic, listed)),
    (listed || state.reads.events?.value) && panel("Latest events", ["events"], eventList(path && route)),
    path && panel("Configuration", ["configuration"], configured(topic, listed)),
    path && isOperator() && panel("Does it match?", ["configuration"], matches(topic, listed)),
    path && panel("Forecast", [], forecast(path)),
    path && panel("Dead letters", ["deadLetters"], deadLetters(path, route)),
    path && panel("Replays", ["replays"], replays(route)),
  ];
}

function sameName(one, other) {
  return one.toLowerCase() === other.toLowerCase();
}

function rates(topic, { name }) {
  const { success, answers } = endpointRates(topic.name, name);
  return [
    h("dl", null, fact("Attempts that succeeded", success), fact("Time to answer", answers)),
    charts(state.reads.rates?.value ?? []),
  ];
}

function configured(topic, { name }) {
  const found = state.reads.configuration?.value?.found;
  return found && configuration(found, { topic: topic.name, subscription: name });
}

function matches(topic, { name }) {
  const examples = state.reads.configuration?.value?.examples;
  return examples && matching(topic, name, examples);
}

function now(path, listed, { topic, subscription }) {
  if (!listed) return h("p", null, `There is no event subscription ${subscription} of topic ${topic}.`);
  // The state beside the events is read more often than the list.
  const latest = { ...listed, ...state.reads.events?.value?.state };
  const found = stateOf(latest);
  return [
    h("p", null, badge(found), " ", h("span", { class: "why" }, found.why)),
    latest.validation && h("p", { class: "quiet" }, latest.validation.remedy),
    path && isOperator() && buttons(path, latest),
    testResult(),
    h(
      "dl",
      null,
      fact("Endpoint", h("span", { class: "url" }, endpointOf(listed))),
      listed.limits?.text && fact("Requests", listed.limits.text),
      fact("Waiting events", latest.waiting ?? "not known"),
      latest.awaitingBlob > 0 && fact("Given up, to be written to a blob", latest.awaitingBlob),
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

/** The latest events; route: null if none can be sent again. */
function eventList(route) {
  const found = (state.reads.events?.value?.value ?? []).toReversed();
  state.view.openEvent ??= found.find(hasFailed)?.systemId; // a newer one does not close it
  const isWanted = state.view.events === "failed" ? hasFailed : () => true;
  const events = found.filter(isWanted).map((event) => ({ event, where: null }));
  return [
    choice("Show", "events", [
      ["all", "all that are recorded"],
      ["failed", "with failed attempts"],
    ]),
    events.length
      ? timelines(
          events,
          (event) => event.systemId === state.view.openEvent,
          (event) => route && isOperator() && event.end?.state === "deadLettered" && resendButton(route, event.eventId),
        )
      : h(
          "p",
          { class: "quiet" },
          "Nothing is recorded. Events delivered at once are recorded only if PUSHGRID_ATTEMPT_LOG is all.",
        ),
  ];
}

function resendButton(route, id) {
  return button(labelOf("Resend", id), () => run(`resend ${id}`, () => resend(route, id)));
}
