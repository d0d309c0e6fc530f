// Holds what the page shows, and keeps what it reads up to date.

/** Everything that the views are drawn from. */
export const state = {
  api: null, // null: signed out
  signInFault: "",
  route: { view: "overview" },
  reads: {}, // by name: { value, at, error, isUnreachable }; at: when the value was read
  view: {}, // what the operator has typed, chosen or asked for on this view
  running: "", // the action under way
  pressed: null, // the button that has begun the latest action
  notice: null, // { text, look }: its result; look: good, warn or bad
  examples: null, // what the subscription that was shown last takes
};

const GOOD_STAYS = 10_000; // milliseconds
const SHARED = ["topics", "health"]; // reads that are of the whole deployment
let draw = () => {};
let isScheduled = false;
let current = { stop: new AbortController(), repeat: () => {} };

export function drawWith(drawing) {
  draw = drawing;
}

/** Change the state and draw once, after all changes of this moment. */
export function change(changes) {
  Object.assign(state, changes);
  if (isScheduled) return;
  isScheduled = true;
  queueMicrotask(() => {
    isScheduled = false;
    draw();
  });
}

/** Whether the key allows more than reading, as `status/topics` says. */
export function isOperator() {
  return state.reads.topics?.value?.access !== "read";
}

export function setInView(name, value) {
  change({ view: { ...state.view, [name]: value } });
}

/**
 * Read what a view needs, again and again, until another call.
 * loads: by name, [function of a signal that returns a value, seconds until the next read, or
 * a function of the value that returns them].
 * What is the same for all views stays on the screen meanwhile.
 */
export function keepReading(loads) {
  current.stop.abort();
  const kept = Object.entries(state.reads).filter(([name]) => SHARED.includes(name));
  change({ reads: Object.fromEntries(kept) });
  const stop = new AbortController();
  const repeats = Object.entries(loads).map(([name, [load, seconds]]) =>
    repeatedly(name, load, seconds, stop.signal),
  );
  current = { stop, repeat: () => repeats.forEach((each) => each()) };
}

function repeatedly(name, load, seconds, signal) {
  let timer = 0;
  let isReading = false;
  let isWantedAgain = false;
  const pause = () =>
    1000 * (typeof seconds === "function" ? seconds(state.reads[name]?.value) : seconds);

  async function read() {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (isReading) {
      isWantedAgain = true;
      return;
    }
    isReading = true;
    await readOnce(name, load, signal, () => !isWantedAgain); // else it may be from before an action
    isReading = false;
    if (signal.aborted) return;
    const wait = isWantedAgain ? 0 : pause();
    isWantedAgain = false;
    timer = setTimeout(() => (document.hidden ? whenVisible(read) : read()), wait);
  }

  signal.addEventListener("abort", () => clearTimeout(timer));
  // What another view has read a moment ago is still good.
  const age = Date.now() - (state.reads[name]?.at ?? 0);
  timer = setTimeout(read, Math.max(pause() - age, 0));
  return read;
}

async function readOnce(name, load, signal, isCurrent) {
  try {
    const value = await load(signal);
    if (!signal.aborted && isCurrent()) keep(name, { value, error: null, at: new Date() });
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) signOut(error.message);
    else keep(name, { ...state.reads[name], error: error.message, isUnreachable: error.status === 0 });
  }
}

function keep(name, read) {
  change({ reads: { ...state.reads, [name]: read } });
}

function whenVisible(read) {
  document.addEventListener("visibilitychange", read, { once: true });
}

/** Forget the key and everything read with it. */
export function signOut(fault = "") {
  current.stop.abort();
  change({ api: null, reads: {}, view: {}, notice: null, running: "", examples: null, signInFault: fault });
}

/** Show a result; a good one goes by itself. */
function tell(notice) {
  change({ running: "", notice });
  if (notice.look === "good") setTimeout(() => state.notice === notice && closeNotice(), GOOD_STAYS);
}

/** Close the notice; if it has the focus, the button that it is about gets it. */
export function closeNotice() {
  if (document.activeElement.closest(".notice")) state.pressed?.focus({ preventScroll: true });
  change({ notice: null });
}

/**
 * Run what a button asks for, tell its result, and read again.
 * action: gets a function that shows what it found in the view; returns the result's text, or { text, look }.
 * Another view is told and shown nothing.
 */
export async function run(name, action) {
  if (state.running) return;
  const { signal } = current.stop; // of this view
  const pressed = document.activeElement;
  pressed.scrollIntoView({ block: "nearest" });
  const show = (found) => signal.aborted || change({ view: { ...state.view, ...found } });
  change({ running: name, notice: null, pressed });
  let notice;
  try {
    const result = await action(show);
    notice = { look: "good", ...(typeof result === "string" ? { text: result } : result) };
  } catch (error) {
    notice = { text: error.message, look: "bad" };
    if (error.status === 401 && !signal.aborted) signOut(error.message);
  }
  if (!signal.aborted) tell(notice);
  current.repeat(); // everything on the screen
}
