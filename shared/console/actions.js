// Draws the buttons of a subscription, and what a test of its endpoint showed.

import { badge, button, duration, moment } from "./parts.js";
import { h } from "./preact.mjs";
import { run, state } from "./store.js";

/** The buttons that make sense now; found: its state as `…/attempts` answers it. */
export function buttons(path, found) {
  const act = (action) => async () => (await state.api.act(path, action)).message;
  const test = async (show) => {
    const tested = await state.api.act(path, "test");
    show({ test: tested });
    return tested.succeeded ? "The endpoint accepted the test event." : "The endpoint did not accept the test event.";
  };
  return h(
    "div",
    { class: "fields" },
    found?.paused ? running("Resume", act("resume")) : running("Pause", act("pause")),
    running("Release", act("release"), !found?.held),
    running("Send a test event to the endpoint", test),
  );
}

function running(label, action, isOff = false) {
  const text = state.running === label ? `${label} …` : label;
  return button(text, () => run(label, action), { isOff });
}

/** The request and the answer of the latest test. */
export function testResult() {
  const tested = state.view.test;
  if (!tested) return null;
  const { request, answer, failure, peer, outcome, succeeded } = tested;
  const word = [answer?.status, outcome ?? "no attempt"].filter(Boolean).join(" ");
  return h(
    "div",
    { "aria-label": "Test", role: "group" },
    h(
      "p",
      null,
      h("strong", null, "Test at "),
      moment(tested.at),
      ": ",
      badge({ word, look: succeeded ? "good" : "bad" }),
      ` after ${duration(tested.seconds)}`,
      peer && ` from ${peer.address}`,
    ),
    failure && h("p", { class: "fault" }, `${failure.reason}: ${failure.detail}`),
    peer?.certificate && certificate(peer.certificate),
    h(
      "div",
      { class: "columns" },
      message("Request", `${request.method} ${request.url}`, request),
      answer && message("Answer", String(answer.status), answer),
    ),
  );
}

function certificate(found) {
  const fit = found.matchesHost ? "it is for this host" : "it is not for this host";
  return h(
    "p",
    null,
    `Certificate of ${found.subject}, issued by ${found.issuer}, valid until `,
    moment(found.validUntil),
    `; ${fit} (${found.names.join(", ")}).`,
  );
}

function message(title, first, { headers, body }) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return h(
    "div",
    null,
    h("h3", null, title),
    h("pre", { tabIndex: 0, "aria-label": title }, `${[first, ...lines].join("\n")}\n\n${body}`),
  );
}
