// Chooses the view that the address names, and draws it.

import { overview, overviewReads } from "./overview.js";
import { moment, pathOf } from "./parts.js";
import { h, render } from "./preact.mjs";
import { signInForm } from "./sign_in.js";
import { change, closeNotice, drawWith, keepReading, signOut, state } from "./store.js";
import { subscriptionReads, subscriptionView } from "./subscription.js";
import { topicReads, topicView } from "./topic.js";

const VIEWS = {
  overview: { title: () => "Overview", reads: overviewReads, draw: overview },
  topic: { title: ({ topic }) => topic, reads: topicReads, draw: topicView },
  subscription: {
    title: ({ subscription }) => subscription,
    reads: subscriptionReads,
    draw: subscriptionView,
  },
};

/** Read the route of an address such as #/topics/orders/crm. */
function routeOf(hash) {
  const [, kind, ...names] = hash.split("/").map(decoded);
  const [topic, subscription] = names;
  if (kind !== "topics" || !topic) return { view: "overview" };
  return subscription ? { view: "subscription", topic, subscription } : { view: "topic", topic };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function follow() {
  const route = routeOf(location.hash);
  const view = VIEWS[route.view];
  document.title = `${view.title(route)} · Pushgrid console`;
  if (!state.api) {
    change({ route });
    return;
  }
  change({ route, view: {}, notice: null, running: "", pressed: null });
  document.getElementById("content")?.scrollTo(0, 0);
  keepReading(view.reads(state.api, route));
  queueMicrotask(() => document.getElementById("content")?.focus());
}

function page() {
  if (!state.api) return signInForm();
  const view = VIEWS[state.route.view];
  return [
    h("a", { class: "skip", href: "#content", onClick: skip }, "Skip to the content"),
    h(
      "header",
      null,
      h("nav", { "aria-label": "Console" }, trail(state.route)),
      h("span", { class: "quiet" }, location.host),
      h("button", { type: "button", onClick: () => signOut() }, "Sign out"),
    ),
    h("div", { class: "banner", role: "alert" }, staleness()),
    h(
      "main",
      { id: "content", tabIndex: -1 },
      h("h1", null, view.title(state.route)),
      view.draw(state.route),
    ),
    h("div", { class: "notice", role: "status" }, notice()),
  ];
}

const NOTICES = { good: "Done", warn: "Attention", bad: "Failed" };

/** Where the view is: the way back to the overview and the topic. */
function trail({ topic, subscription }) {
  return [
    h("a", { class: "brand", href: "#/" }, "Pushgrid"),
    topic && [" / ", h("a", { href: pathOf(topic) }, topic)],
    subscription && [" / ", h("a", { href: pathOf(topic, subscription) }, subscription)],
  ];
}

/** Since when the deployment gives no answer. */
function staleness() {
  const stale = Object.values(state.reads).filter((each) => each.isUnreachable && each.at);
  if (!stale.length) return null;
  const since = new Date(Math.min(...stale.map((each) => each.at)));
  return h("p", null, "The deployment has not answered since ", moment(since), ". What is shown is as it was then, and may be wrong now.");
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function notice() {
  if (!state.notice) return null;
  const { text, look } = state.notice;
  return h(
    "p",
    { class: look },
    h("span", null, h("strong", null, `${NOTICES[look]}: `), text),
    h("button", { type: "button", title: "Escape", onClick: closeNotice }, "Close"),
  );
}

let isPressed = false; // the main button, or a finger

/**
 * Draw the page, but not while something is pressed, which would move away from under the pointer.
 * If what has the focus goes away, the focus goes to what it was in.
 * The button that was pressed last stays in view, whatever comes above it.
 */
function draw() {
  if (isPressed) return;
  const focused = document.activeElement;
  const around = focused.closest("[tabindex]:not(:focus)");
  const stays = state.pressed && isInView(state.pressed);
  render(page(), document.getElementById("app"));
  if (stays) state.pressed.scrollIntoView({ block: "nearest" });
  if (focused.isConnected) return;
  const next = around?.isConnected ? around : document.getElementById("content");
  next.focus({ preventScroll: true });
}

function isInView(element) {
  const [inner, outer] = [element, document.getElementById("content")].map((each) => each.getBoundingClientRect());
  return element.isConnected && inner.top >= outer.top && inner.bottom <= outer.bottom;
}

/** The pointer is up again: draw what has changed meanwhile, once its click is through. */
function release({ buttons }) {
  if (!isPressed || buttons) return;
  isPressed = false;
  setTimeout(draw);
}

drawWith(draw);
addEventListener("hashchange", follow);
addEventListener("pointerdown", ({ button }) => (isPressed = button === 0));
["pointerup", "pointercancel", "pointermove"].forEach((each) => addEventListener(each, release));
addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && state.notice && !document.querySelector("dialog[open]")) closeNotice();
});
follow();
