// Draws when an event would be attempted if its endpoint answered as the operator says.

import { badge, button, duration, endWord, field, row, table } from "./parts.js";
import { h } from "./preact.mjs";
import { run, state } from "./store.js";

const EXAMPLE = "503,503,timeout,200";

export function forecast(path) {
  const answers = state.view.answers ?? EXAMPLE;
  const ask = async (event) => {
    event.preventDefault();
    await run("forecast", async (show) => {
      show({ forecast: await state.api.get(`${path}/forecast`, { answers }) });
      return "The forecast is ready.";
    });
  };
  return [
    h(
      "form",
      { class: "fields", onSubmit: ask },
      field("Answers of the endpoint; the last one repeats", "answers", { value: answers, size: 40 }),
      button("Forecast"),
    ),
    h(
      "p",
      { class: "quiet" },
      "Status codes, or timeout, refused, dns, tls, unsendable, no-token. Times count from publish.",
    ),
    state.view.forecast && result(state.view.forecast),
  ];
}

function result({ edition, profile, timeScale, attempts, end }) {
  const rows = attempts.map((each) =>
    row(
      each.number,
      each.number,
      duration(each.at),
      `${each.answer} ${each.outcome}`,
      each.nextAt === null ? "–" : duration(each.nextAt),
      each.why,
    ),
  );
  const look = end.state === "delivered" ? "good" : "bad";
  return [
    h("p", null, `Delivery profile ${profile}: ${edition}`),
    timeScale !== 1 && h("p", null, `All waits are ${timeScale} times shorter in this deployment.`),
    table("Expected attempts", ["Attempt", "At", "Answer", "Next at", "Because of"], rows, "No attempt."),
    h(
      "p",
      null,
      badge({ word: endWord(end.state), look }),
      ` after ${duration(end.at)}`,
      end.reason && `: ${end.reason} (${end.why})`,
      end.blobAt !== null && `; its blob is due after ${duration(end.blobAt)}`,
    ),
  ];
}
