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

/** A member of an event, which may be anything, as text. */
export function textOf(member) {
  return typeof member === "string" ? member : JSON.stringify(member);
}
