// Draws the form that asks for the operator's key, and signs in with it.

import { Api } from "./api.js";
import { h } from "./preact.mjs";
import { change, state } from "./store.js";

export function signInForm() {
  return h(
    "main",
    { id: "content", class: "sign-in", tabIndex: -1 },
    h("h1", null, "Pushgrid console"),
    h("p", null, `Deployment: ${location.host}`),
    h(
      "form",
      { class: "panel", onSubmit: signIn },
      h("label", { for: "key" }, "Admin key, reader’s key, or access token of Entra ID"),
      h("input", {
        id: "key",
        type: "password",
        autocomplete: "off",
        required: true,
        "aria-describedby": "key-note",
        "aria-invalid": Boolean(state.signInFault),
      }),
      h(
        "p",
        { id: "key-note", class: "quiet" },
        "It stays in the memory of this page: reloading or closing the page forgets it.",
      ),
      h("button", { class: "primary", disabled: state.running === "sign-in" }, "Sign in"),
      h("p", { class: "fault", role: "alert" }, state.signInFault),
    ),
  );
}

async function signIn(event) {
  event.preventDefault();
  const input = event.target.querySelector("input");
  const api = new Api(input.value.trim());
  change({ running: "sign-in", signInFault: "" });
  try {
    const value = await api.topics();
    input.value = "";
    change({ api, running: "", reads: { topics: { value, error: null, at: new Date() } } });
    dispatchEvent(new Event("hashchange"));
  } catch (error) {
    change({ running: "", signInFault: error.message });
  }
}
