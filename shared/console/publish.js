// Draws the form that publishes a test event to a topic.

import { parseExactly, textOf } from "./exact_json.js";
import { button, counted, field } from "./parts.js";
import { h } from "./preact.mjs";
import { run, setInView, state } from "./store.js";

/** The form; topic: as `status/topics` names it. It starts with what the subscription that was shown last takes. */
export function publishForm(topic) {
  const isCustom = isOfOwnSchema(topic);
  const { name, ...examples } = state.examples?.topic === topic.name ? state.examples : {};
  const send = (event) => {
    event.preventDefault();
    return run("publish", async () => {
      const event = isCustom ? typed("event", "{}") : described(topic, examples);
      await state.api.publish(topic, event);
      const published = `Published event ${textOf(parseExactly(event).id ?? "")}`;
      return told(published, await state.api.matches(topic, event).catch(() => null));
    });
  };
  return h(
    "form",
    { onSubmit: send },
    h(
      "div",
      { class: "fields" },
      !isCustom && field("Type", "type", { value: value("type", examples), required: true }),
      !isCustom && field("Subject", "subject", { value: value("subject", examples) }),
    ),
    isCustom
      ? area("Event (JSON, in the topic's own schema)", "event", "{}")
      : area("Data (JSON)", "data", EXAMPLES.data),
    name && h("p", { class: "quiet" }, `Type and subject are such as ${name} takes.`),
    button("Publish", null, { class: "primary" }),
  );
}

const EXAMPLES = { type: "Console.Test", subject: "/test", data: '{ "total": 12.5 }' };

function isOfOwnSchema({ inputSchema }) {
  return inputSchema === "CustomEventSchema";
}

/** What is typed, else an example that a subscription takes, else any. */
function value(name, examples) {
  return state.view[name] ?? (examples[name] || EXAMPLES[name]);
}

/** How many subscriptions get an event; of none the nearest reason. found: null if that can't be read. */
function told(published, found) {
  if (!found) return `${published}.`;
  const matched = found.value.filter((each) => each.matched).length;
  if (matched) return `${published}; ${counted(matched, "event subscription")} matched.`;
  const closest = found.value.toSorted((a, b) => b.passed - a.passed)[0];
  const why = closest ? `${closest.subscription}: ${closest.why}` : "the topic has no event subscription";
  return { text: `${published}, and no event subscription matched. ${why}`, look: "warn" };
}

/** An example of a whole event for a topic, as JSON to edit; examples: of its type and subject. */
export function exampleOf(topic, examples) {
  const event = isOfOwnSchema(topic) ? "{}" : written(topic, { ...EXAMPLES, ...present(examples) });
  return JSON.stringify(JSON.parse(event), null, 2);
}

function present(examples) {
  return Object.fromEntries(Object.entries(examples).filter(([, each]) => each));
}

/** A field for JSON. */
export function area(label, name, fallback, rows = 3) {
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h(
      "textarea",
      {
        rows,
        spellcheck: false,
        value: state.view[name] ?? fallback,
        onInput: (event) => setInView(name, event.target.value),
      },
    ),
  );
}

/** The JSON that was typed, as it was typed. */
export function typed(name, fallback) {
  const text = state.view[name] ?? fallback;
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`The ${name} is not valid JSON: ${error.message}`);
  }
  return text;
}

/** The event that the form describes. */
function described(topic, examples) {
  const [type, subject] = ["type", "subject"].map((each) => value(each, examples));
  return written(topic, { type, subject, data: typed("data", EXAMPLES.data) });
}

/** Return an event in the topic's schema, as JSON; data: JSON. */
function written({ inputSchema }, { type, subject, data }) {
  const id = crypto.randomUUID?.() ?? `console-${Date.now()}-${Math.random()}`;
  const now = new Date().toISOString();
  const event =
    inputSchema === "CloudEventSchemaV1_0"
      ? // An empty subject is invalid.
        { id, subject: subject || undefined, specversion: "1.0", source: "/console", type, time: now }
      : { id, subject, eventType: type, eventTime: now, dataVersion: "1.0" };
  return `${JSON.stringify(event).slice(0, -1)},"data":${data}}`;
}
