// Questions to the user, each with one answer.

import { byId, el } from "./dom.js";

function opened(title, fields, action, { isGrave = false } = {}) {
  const cancel = el("button", { type: "submit", value: "cancel", class: "button", formnovalidate: true }, "Cancel");
  const kind = isGrave ? "button grave" : "button primary";
  const go = el("button", { type: "submit", value: "go", class: kind }, action);
  const heading = el("h2", { id: "dialog-title" }, title);
  const buttons = el("div", { class: "dialog-buttons" }, cancel, go);
  const form = el("form", { method: "dialog" }, heading, ...fields, buttons);
  const dialog = byId("dialog");
  dialog.replaceChildren(form);
  // The way out is the last to be chosen by a bare Enter.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.tagName === "INPUT") {
      event.preventDefault();
      go.click();
    }
  });
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "go"), { once: true });
  });
}

export const confirmed = (title, text, action) =>
  opened(title, [el("p", {}, text)], action, { isGrave: true });

// The key, or null.
export async function askForKey(wasWrong) {
  const input = el("input", {
    type: "password",
    id: "key",
    required: true,
    autocomplete: "off",
    "aria-describedby": "key-note",
  });
  const text = wasWrong
    ? "The server doesn't know that key. Try another one."
    : "This server needs an API key. It is kept in this tab, until you close it.";
  const fields = [
    el("p", { id: "key-note", class: wasWrong ? "wrong" : "" }, text),
    el("label", { for: "key" }, "API key"),
    input,
  ];
  const isGiven = await opened("API key", fields, "Continue");
  return isGiven ? input.value.trim() || null : null;
}
