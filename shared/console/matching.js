// Draws a form that says whether a subscription takes an event, and else which condition says no.

import { area, exampleOf, typed } from "./publish.js";
import { button } from "./parts.js";
import { h } from "./preact.mjs";
import { run, state } from "./store.js";

export function matching(topic, subscription, examples) {
  // It names its time and id, so it stays the same until another one is shown.
  const example = (examples.event ??= exampleOf(topic, examples));
  const ask = async (event) => {
    event.preventDefault();
    await run("match", async (show) => {
      const found = await state.api.matches(topic, typed("candidate", example));
      const match = found.value.find((each) => each.subscription.toLowerCase() === subscription.toLowerCase());
      show({ match });
      return match.matched ? "It matches." : { text: `It does not match: ${match.why}`, look: "warn" };
    });
  };
  return h(
    "form",
    { onSubmit: ask },
    area("Event (JSON, as it is published); “Check” at a dead letter puts it here", "candidate", example, 6),
    button("Does it match?"),
    state.view.match && verdict(state.view.match),
  );
}

function verdict({ matched, why, passed, warnings }) {
  const said = matched
    ? [h("span", { class: "badge good" }, "matches"), " This subscription would get it."]
    : [
        h("span", { class: "badge warn" }, "no match"),
        ` ${why}`,
        passed > 0 && h("span", { class: "quiet" }, ` (conditions that held before: ${passed})`),
      ];
  return [h("p", null, said), warnings.map((each) => h("p", { class: "quiet" }, `Warning: ${each}`))];
}
