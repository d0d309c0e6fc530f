// Draws what several views show: panels, tables, times, states.

import { h } from "./preact.mjs";
import { setInView, state } from "./store.js";

const ROWS = 50; // of a page

/**
 * The state of a subscription: a word, how it looks, and why.
 *
 * Of several it is the most harmful, in the order of `Kind` in troubles.py. What the subscription
 * itself says counts before its trouble, which may have been read earlier.
 */
export function stateOf({ isReadable, isExpired, hasConsented, validation, paused, held, trouble }) {
  if (!isReadable) return { ...troubleState("damaged"), why: "its row can't be read" };
  const isCalled = !paused && !held && !isExpired;
  if (isCalled && trouble?.kind === "failing") return { ...troubleState("failing"), why: trouble.why };
  if (held && !paused) return { ...troubleState("held"), why: whyHeld(held) };
  if (paused) {
    return { ...troubleState("paused"), why: ["since ", moment(paused.since), ` by ${paused.by}`] };
  }
  if (isExpired) return { ...troubleState("expired"), why: "it gets no more events" };
  if (!hasConsented) return { ...troubleState("awaitingValidation"), why: validation?.why ?? trouble?.why };
  if (trouble) return { ...troubleState(trouble.kind), why: trouble.why };
  return { word: "delivering", look: "good", why: "" };
}

/** How a kind of trouble is shown. */
export function troubleState(kind) {
  return { word: WORDS[kind] ?? kind, look: LOOKS[kind] ?? "warn" };
}

const WORDS = { awaitingValidation: "awaiting validation", deadLettering: "dead-lettering", unknownAccount: "unknown account" };
const LOOKS = { damaged: "bad", failing: "bad", held: "bad", dropping: "bad", expired: "off" };

function whyHeld(held) {
  return held.until ? ["until ", moment(held.until), `: ${held.why}`] : held.why;
}

/** Where a subscription's events go: the URL of a webhook, or the queue in an ARM id. */
export function endpointOf(subscription) {
  const text = subscription.endpoint ?? "";
  const queue = /\/storageAccounts\/([^/]+)\/queueServices\/default\/queues\/([^/]+)$/i.exec(text);
  return queue ? `queue ${queue[2]} of ${queue[1]}` : text;
}

export function badge({ word, look }) {
  return h("span", { class: `badge ${look}` }, word);
}

/** How a delivery has ended; whether its dead letter could be written is not known here. */
export function endWord(state) {
  return state === "deadLettered" ? "given up" : state;
}

/** A time in the operator's own zone; its title has it in UTC. */
export function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.valueOf())) return String(text);
  const isToday = at.toDateString() === new Date().toDateString();
  const day = isToday ? {} : { month: "short", day: "numeric" };
  const shown = at.toLocaleString(undefined, { ...day, ...CLOCK });
  return h("time", { dateTime: at.toISOString(), title: at.toISOString() }, shown);
}

export const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit" };

/** A duration in seconds, as 2 h 5 min. */
export function duration(seconds) {
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${Math.round(seconds * 10) / 10} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  let rest = Math.round(seconds);
  return units
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count ? `${count} ${unit}` : "";
    })
    .join(" ")
    .trim();
}

/** A part of a view with a heading; reads: the names of what it shows. */
export function panel(title, reads, ...children) {
  const id = `panel-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return h(
    "section",
    { class: reads.some((name) => isStale(state.reads[name])) ? "panel stale" : "panel", "aria-labelledby": id, key: id },
    h("h2", { id }, title),
    reads.map((name) => freshness(state.reads[name])),
    reads.some((name) => state.reads[name]?.value !== undefined) || !reads.length ? children : null,
  );
}

/** Whether what is shown may be wrong by now. */
export function isStale(read) {
  return Boolean(read?.error);
}

/** Say that something is being read, or can't be. */
function freshness(read) {
  if (!read) return h("p", { class: "quiet" }, "Reading …");
  if (!read.error) return null;
  const shown = read.at ? ["Stale since ", moment(read.at), "."] : null;
  return h("p", { class: "fault" }, `This can't be read: ${read.error} `, shown);
}

/** A button; while an action runs, or if isOff, it does nothing and keeps the focus. Without onClick it submits. */
export function button(text, onClick, { isOff = false, ...attributes } = {}) {
  const isIdle = isOff || Boolean(state.running);
  const press = (event) => (isIdle ? event.preventDefault() : onClick?.(event));
  const type = onClick ? "button" : "submit";
  return h("button", { type, "aria-disabled": isIdle, onClick: press, ...attributes }, text);
}

/** A label with more words for screen readers, which hear buttons without the row around them. */
export function labelOf(text, more) {
  return [text, h("span", { class: "unseen" }, ` ${more}`)];
}

export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** A table, whose rows are cards on narrow screens; columns: its headings; rows: as `row` makes them. */
export function table(caption, columns, rows, empty) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h(
    "div",
    { class: "wide", role: "group", "aria-label": caption, tabIndex: 0 },
    h(
      "table",
      null,
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, columns.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", null, rows.map(({ key, cells }) => drawnRow(key, cells, columns))),
    ),
  );
}

export function row(key, ...cells) {
  return { key, cells };
}

function drawnRow(key, cells, columns) {
  return h("tr", { key }, cells.map((each, number) => h("td", { "data-column": columns[number] }, each)));
}

/** The rows of the chosen page, and what to choose another with; name: of its number in the view's state. */
export function paged(name, rows) {
  const last = Math.max(Math.ceil(rows.length / ROWS) - 1, 0);
  const page = Math.min(state.view[name] ?? 0, last);
  const from = page * ROWS;
  const turn = (label, to, isOff) => button(label, () => setInView(name, to), { isOff });
  const pager =
    last > 0 &&
    h(
      "nav",
      { class: "pager", "aria-label": "Pages" },
      turn("Previous", page - 1, page === 0),
      h("span", null, `${from + 1} to ${Math.min(from + ROWS, rows.length)} of ${rows.length}`),
      turn("Next", page + 1, page === last),
    );
  return { shown: rows.slice(from, from + ROWS), pager };
}

export function field(label, name, attributes) {
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h("input", {
      type: "text",
      autocomplete: "off",
      spellcheck: false,
      value: state.view[name] ?? "",
      onInput: (event) => setInView(name, event.target.value),
      ...attributes,
    }),
  );
}

export function choice(label, name, options) {
  const chosen = state.view[name] ?? options[0][0];
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h(
      "select",
      { onChange: (event) => setInView(name, event.target.value) },
      options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    ),
  );
}

export function link(path, text) {
  return h("a", { href: path }, text);
}

export function pathOf(topic, subscription) {
  const names = subscription === undefined ? [topic] : [topic, subscription];
  return `#/topics/${names.map(encodeURIComponent).join("/")}`;
}
