// Keeps the numbers of events as they are written, which JavaScript would round or write otherwise.

/** Whether this browser can do so. */
export function isExact() {
  return "rawJSON" in JSON;
}

/** Parse JSON; what JavaScript would write otherwise, such as 1.10, is only for JSON.stringify. */
export function parseExactly(text) {
  return JSON.parse(text, (_, value, { source } = {}) => {
    const isAltered = isExact() && typeof value === "number" && String(value) !== source;
    return isAltered ? JSON.rawJSON(source) : value;
  });
}

/** A member of an event, which may be anything, as text; clipped as in the log. */
export function textOf(member) {
  const text = typeof member === "string" ? member : JSON.stringify(member);
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

const LONGEST = 512; // characters
