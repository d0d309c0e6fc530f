// Draws the form that publishes a test event to a topic.

import { parseExactly, textOf } from "./exact_json.js";
import { button, field } from "./parts.js";
import { h } from "./preact.mjs";
import { run, setInView, state } from "./store.js";

/** The form; topic: as `status/topics` names it. */
export function publishForm(topic) {
  const isCustom = topic.inputSchema === "CustomEventSchema";
  const send = (event) => {
    event.preventDefault();
    return run("publish", async () => {
      const event = isCustom ? typed("event") : describe(topic);
      await state.api.publish(topic, event);
      return `Published event ${textOf(parseExactly(event).id ?? "")}.`;
    });
  };
  return h(
    "form",
    { onSubmit: send },
    h(
      "div",
      { class: "fields" },
      !isCustom && field("Type", "type", { value: value("type"), required: true }),
      !isCustom && field("Subject", "subject", { value: value("subject") }),
    ),
    isCustom ? area("Event (JSON, in the topic's own schema)", "event") : area("Data (JSON)", "data"),
    button("Publish", null, { class: "primary" }),
  );
}

const EXAMPLES = { type: "Console.Test", subject: "/test", data: '{ "total": 12.5 }', event: "{}" };

function value(name) {
  return state.view[name] ?? EXAMPLES[name];
}

function area(label, name) {
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h(
      "textarea",
      {
        rows: 3,
        spellcheck: false,
        value: value(name),
        onInput: (event) => setInView(name, event.target.value),
      },
    ),
  );
}

/** The JSON that was typed, as it was typed. */
function typed(name) {
  const text = value(name);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`The ${name} is not valid JSON: ${error.message}`);
  }
  return text;
}

/** Return an event in the topic's schema, as JSON. */
function describe({ inputSchema }) {
  const id = crypto.randomUUID?.() ?? `console-${Date.now()}-${Math.random()}`;
  const common = { id, subject: value("subject") };
  const written = (event) => `${JSON.stringify(event).slice(0, -1)},"data":${typed("data")}}`;
  const now = new Date().toISOString();
  if (inputSchema === "CloudEventSchemaV1_0") {
    const subject = common.subject || undefined; // an empty one is invalid
    return written({ ...common, subject, specversion: "1.0", source: "/console", type: value("type"), time: now });
  }
  return written({ ...common, eventType: value("type"), eventTime: now, dataVersion: "1.0" });
}
