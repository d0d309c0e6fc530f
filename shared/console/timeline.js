// Draws what became of events: every attempt, its answer, the next time, and the rule behind it.

import { badge, duration, endWord, link, moment } from "./parts.js";
import { h } from "./preact.mjs";

const ENDS = { delivered: "good", deadLettered: "bad", dropped: "bad" };

/**
 * Events as `…/attempts` answers them; where: null, or { name, path } of their subscription.
 * more: what is drawn below an event.
 */
export function timelines(events, isOpen = () => false, more = () => null) {
  return events.map(({ event, where }) => timeline(event, where, isOpen(event), more(event)));
}

function timeline(event, where, isOpen, more) {
  const state = latestState(event);
  return h(
    "details",
    { class: "event", key: `${event.systemId}`, open: isOpen },
    h(
      "summary",
      null,
      badge(state),
      " ",
      where && h("strong", null, `${where.name} `),
      h("span", null, event.eventId ?? "(gone)"),
      event.publishedAt && [event.replayOf ? " replayed " : " published ", moment(event.publishedAt)],
    ),
    h(
      "p",
      { class: "quiet" },
      `aeg-output-event-id ${event.systemId}`,
      event.traceId ? `, trace ${event.traceId}` : "",
      event.replayOf ? `, replay ${event.replayOf}` : "",
      where && [". ", link(where.path, `Open ${where.name}`)],
    ),
    h("ol", { class: "timeline" }, event.attempts.map(attempt), event.end && end(event.end)),
    state.next && h("p", null, "The next attempt is due at ", moment(state.next), "."),
    more,
  );
}

/** The state of an event now: a word, how it looks, and when the next attempt is due. */
function latestState({ attempts, end }) {
  if (end) return { word: endWord(end.state), look: ENDS[end.state] ?? "off" };
  const last = attempts.at(-1);
  if (!last) return { word: "held", look: "warn" };
  if (last.outcome === "Delivered") return { word: "delivered", look: "good" };
  const isAhead = last.nextAt && new Date(last.nextAt) > new Date();
  return isAhead
    ? { word: "will be retried", look: "warn", next: last.nextAt }
    : { word: "no failure since", look: "off" };
}

export function hasFailed({ attempts }) {
  return attempts.some((each) => each.outcome !== "Delivered");
}

function attempt(each) {
  const isDelivered = each.outcome === "Delivered";
  const look = isDelivered ? "good" : "bad";
  const answer = [each.status, each.outcome].filter(Boolean).join(" ");
  return h(
    "li",
    { class: look, key: each.number },
    h("strong", null, `Attempt ${each.number}`),
    " at ",
    moment(each.at),
    ": ",
    badge({ word: answer, look }),
    ` after ${duration(each.seconds)}`,
    each.detail && h("div", { class: "detail" }, each.detail),
    each.answer && answered(each.answer),
    each.nextAt &&
      h("div", null, "Next at ", moment(each.nextAt), " because of: ", h("em", null, each.why)),
  );
}

/** What the endpoint answered: the headers that are kept, and the beginning of the body. */
export function answered({ headers, body, isTruncated, systemId }) {
  if (body === null) return h("div", { class: "quiet" }, `Answered with the event of aeg-output-event-id ${systemId}.`);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const more = isTruncated ? "\n… (only the beginning is kept)" : "";
  return [
    lines.length > 0 && h("div", { class: "quiet" }, lines.join(" · ")),
    h("pre", { class: "answer" }, `${body || "(no body)"}${more}`),
  ];
}

function end(found) {
  return h(
    "li",
    { class: ENDS[found.state] ?? "off", key: "end" },
    h("strong", null, endWord(found.state)),
    " at ",
    moment(found.at),
    found.reason && `: ${found.reason}`,
    found.why && h("div", null, h("em", null, found.why)),
    found.blobDueAt && h("div", null, blobDue(new Date(found.blobDueAt)), moment(found.blobDueAt)),
  );
}

function blobDue(at) {
  return `Its dead-letter blob ${at > new Date() ? "is" : "was"} due at `;
}
