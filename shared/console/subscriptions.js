// Draws subscriptions with their states: searched, filtered, and a page at a time.

import { badge, choice, endpointOf, field, link, paged, pathOf, row, stateOf, table } from "./parts.js";
import { h } from "./preact.mjs";
import { endpointRates } from "./rates.js";
import { state } from "./store.js";

const STATES = ["delivering", "paused", "held", "failing", "slow", "dropping", "dead-lettering", "unsigned", "awaiting validation", "damaged", "expired"];

/** Return [topic, subscription] of all. */
export function everySubscription(topics) {
  return topics.flatMap((topic) => topic.subscriptions.map((each) => [topic, each]));
}

/** The list of subscriptions; pairs: as `everySubscription` returns them. */
export function subscriptionList(pairs, { hasTopic }) {
  const sought = (state.view.search ?? "").toLowerCase();
  const wanted = state.view.wanted ?? "all";
  const found = pairs.filter(([topic, each]) => {
    const word = stateOf(each).word;
    const isWanted = wanted === "all" || wanted === word || (wanted === "trouble" && word !== "delivering");
    return isWanted && `${topic.name}/${each.name} ${endpointOf(each)}`.toLowerCase().includes(sought);
  });
  const { shown, pager } = paged("page", found);
  const columns = ["Subscription", ...(hasTopic ? ["Topic"] : []), "State", "Waiting", "Succeeded", "Answers in", "Endpoint"];
  return [
    h(
      "form",
      { class: "fields", role: "search", onSubmit: (event) => event.preventDefault() },
      field("Search names and endpoints", "search", { type: "search" }),
      choice("State", "wanted", [
        ["all", "all"],
        ["trouble", "not delivering"],
        ...STATES.map((each) => [each, each]),
      ]),
    ),
    h("p", { class: "quiet", role: "status" }, `${found.length} of ${pairs.length} subscriptions`),
    table(
      "Event subscriptions",
      columns,
      shown.map(([topic, each]) => subscriptionRow(topic, each, hasTopic)),
      pairs.length ? "No matches." : "There are no event subscriptions yet.",
    ),
    pager,
  ];
}

function subscriptionRow(topic, subscription, hasTopic) {
  const found = stateOf(subscription);
  const { success, answers } = endpointRates(topic.name, subscription.name);
  return row(
    `${topic.name}/${subscription.name}`,
    link(pathOf(topic.name, subscription.name), subscription.name),
    ...(hasTopic ? [link(pathOf(topic.name), topic.name)] : []),
    [badge(found), " ", h("span", { class: "why" }, found.why)],
    subscription.waiting ?? "–",
    success,
    answers,
    h("span", { class: "url" }, endpointOf(subscription)),
  );
}
