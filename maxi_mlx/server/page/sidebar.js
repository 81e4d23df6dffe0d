// The list of conversations; on a narrow screen it lies over the page when asked for.

import * as conversations from "./conversations.js";
import { confirmed } from "./dialogs.js";
import { byId, el, iconButton } from "./dom.js";
import { isKept } from "./storage.js";

const NOTHING_KEPT = "This browser keeps nothing for this page: conversations go when it is closed.";
const NARROW = window.matchMedia("(max-width: 48rem)");

export class Sidebar {
  #handlers;
  #current = null;
  #shown = "";

  // `handlers`: open(id or null), and forget(id).
  constructor(handlers) {
    this.#handlers = handlers;
    byId("new-chat").addEventListener("click", () => this.#choose(null));
    byId("clear").addEventListener("click", () => this.#clear());
    byId("menu").addEventListener("click", () => this.show(true));
    byId("shade").addEventListener("click", () => this.show(false));
    byId("sidebar").addEventListener("keydown", ({ key }) => key === "Escape" && this.show(false));
    NARROW.addEventListener("change", () => this.show(false));
    if (!isKept) byId("no-conversations").textContent = NOTHING_KEPT;
    this.show(false);
  }

  show(isShown) {
    const sidebar = byId("sidebar");
    const hadFocus = sidebar.contains(document.activeElement);
    sidebar.inert = NARROW.matches && !isShown;
    document.body.classList.toggle("sidebar-shown", NARROW.matches && isShown);
    byId("menu").setAttribute("aria-expanded", String(isShown));
    if (NARROW.matches && isShown) byId("new-chat").focus();
    if (NARROW.matches && !isShown && hadFocus) byId("menu").focus();
  }

  refresh(current = this.#current) {
    this.#current = current;
    const all = conversations.all();
    // A list that is the same stays, and with it the button under a finger or with the focus.
    const shown = JSON.stringify([current, ...all.map(({ id, title }) => [id, title])]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    byId("conversations").replaceChildren(...all.map((each) => this.#item(each)));
    byId("no-conversations").hidden = all.length > 0;
    byId("clear").hidden = !all.length;
  }

  #item({ id, title }) {
    const isCurrent = id === this.#current;
    const choose = () => this.#choose(id);
    const attributes = { type: "button", class: "conversation", title, click: choose };
    const button = el("button", { ...attributes, "aria-current": isCurrent && "true" }, title);
    const remove = iconButton("trash", `Delete “${title}”`, () => this.#handlers.forget(id));
    return el("li", {}, button, remove);
  }

  #choose(id) {
    this.#handlers.open(id);
    this.show(false);
  }

  async #clear() {
    const text = "All conversations are deleted. They are kept in this browser alone, so nobody has a copy.";
    if (!(await confirmed("Delete all conversations?", text, "Delete all"))) return;
    for (const { id } of conversations.all()) this.#handlers.forget(id);
    this.#choose(null);
  }
}
