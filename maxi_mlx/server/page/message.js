// One message on the page.

import { copyButton, el, icon, iconButton } from "./dom.js";
import * as format from "./format.js";
import { MarkdownView } from "./markdown.js";

// Drawing may take this share of the time, however long an answer is.
const LARGEST_SHARE = 0.25;
const SLOW_S = 2.5;

export function userElement(message, { edit }) {
  const pictures = (message.images ?? []).map((url) => el("img", { src: url, alt: "Your picture" }));
  const article = el("article", { class: "message user", "aria-label": "You" });
  const buttons = el(
    "div",
    { class: "actions" },
    copyButton(() => message.text, "Copy your message"),
    iconButton("edit", "Edit and send again", () => startEditing(article, message, edit)),
  );
  const bubble = el("div", { class: "bubble" });
  if (pictures.length) bubble.append(el("div", { class: "pictures" }, ...pictures));
  if (message.text) bubble.append(el("p", {}, message.text));
  article.append(bubble, buttons);
  return article;
}

function startEditing(article, message, edit) {
  const area = el("textarea", { "aria-label": "Your message", rows: "1" });
  area.value = message.text;
  const before = [...article.childNodes];
  const cancel = () => {
    article.replaceChildren(...before);
    article.querySelector("[aria-label^=Edit]").focus();
  };
  const submit = (event) => {
    event.preventDefault();
    const text = area.value.trim();
    if (text || message.images?.length) edit(text);
  };
  const keydown = (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") cancel();
    if (event.key === "Enter" && !event.shiftKey) submit(event);
  };
  area.addEventListener("keydown", keydown);
  const buttons = el(
    "div",
    { class: "edit-buttons" },
    el("button", { type: "button", class: "button", click: cancel }, "Cancel"),
    el("button", { type: "submit", class: "button primary" }, "Send again"),
  );
  article.replaceChildren(el("form", { class: "editing", submit }, area, buttons));
  area.style.height = `${Math.min(area.scrollHeight + 2, 400)}px`;
  area.focus();
}

// A model's answer, which grows: `draw` after each change, `finish` at its end.
export class AnswerView {
  #answer;
  #handlers;
  #text = el("div", { class: "text" });
  #markdown = new MarkdownView(this.#text);
  #waiting = el("p", { class: "waiting" }, el("span", { class: "dots", "aria-hidden": "true" }));
  #thought = null;
  #frame = 0;
  #drawn = 0;

  constructor(answer, handlers) {
    this.#answer = answer;
    this.#handlers = handlers;
    this.element = el("article", { class: "message answer", "aria-label": "Answer" });
  }

  // Says what the silence is for, where it lasts.
  wait() {
    this.element.append(this.#waiting);
    const words = el("span", {}, "Loading the model or reading the conversation…");
    setTimeout(() => this.#waiting.isConnected && this.#waiting.append(words), SLOW_S * 1000);
  }

  // At most once a frame.
  draw(drawn) {
    if (this.#frame) return;
    const pause = Math.max(0, this.#drawn - performance.now());
    this.#frame = setTimeout(() => {
      requestAnimationFrame(() => {
        if (!this.#frame) return;
        this.#frame = 0;
        const began = performance.now();
        this.#show(true);
        drawn();
        const ended = performance.now();
        this.#drawn = ended + (ended - began) / LARGEST_SHARE;
      });
    }, pause);
  }

  finish() {
    clearTimeout(this.#frame);
    this.#frame = 0;
    this.#show(false);
    const answer = this.#answer;
    this.#waiting.remove();
    if (answer.error) this.element.append(errorElement(answer.error, this.#handlers.retry));
    if (answer.isCut) this.element.append(note("The answer is as long as it may be: it was cut."));
    if (answer.isUnfinished) this.element.append(note("The answer isn't complete."));
    if (answer.stopped) this.element.append(note("Stopped."));
    const numbers = el("span", { class: "numbers" }, numbersOf(answer));
    numbers.title = titleOf(answer);
    const copy = answer.text ? copyButton(() => answer.text, "Copy the answer") : null;
    const retry = iconButton("retry", "Try again", this.#handlers.retry);
    if (!answer.error) this.element.append(el("div", { class: "actions" }, numbers, copy, retry));
  }

  #show(isComing) {
    const { reasoning, text } = this.#answer;
    if (!reasoning && !text) return;
    this.#waiting.remove();
    if (reasoning) this.#showThought(isComing);
    if (!this.#text.isConnected) this.element.append(this.#text);
    this.#text.classList.toggle("coming", isComing && Boolean(text));
    this.#markdown.show(text, { isComing });
  }

  #showThought(isComing) {
    const { reasoning, thought_s, text } = this.#answer;
    this.#thought ??= this.#newThought();
    const { words, label } = this.#thought;
    words.appendData(reasoning.slice(words.length));
    const isThinking = isComing && !text;
    const took = thought_s === undefined ? "" : ` for ${format.duration(thought_s)}`;
    label.textContent = isThinking ? "Thinking…" : `Thought${took}`;
    label.parentNode.parentNode.classList.toggle("thinking", isThinking);
  }

  #newThought() {
    const words = document.createTextNode("");
    const label = el("span");
    const summary = el("summary", {}, icon("thought"), label, icon("down"));
    this.element.prepend(
      el("details", { class: "reasoning" }, summary, el("div", { class: "thought" }, words)),
    );
    return { words, label };
  }
}

const note = (text) => el("p", { class: "note" }, text);

function errorElement(text, retry) {
  return el(
    "div",
    { class: "error", role: "alert" },
    icon("warning"),
    el("p", {}, text),
    el("button", { type: "button", class: "button", click: retry }, "Try again"),
  );
}

function numbersOf({ model, numbers }) {
  if (!numbers) return model ?? "";
  const parts = [format.plural(numbers.tokens, "token")];
  if (numbers.tokens_per_second) parts.push(`${format.rate(numbers.tokens_per_second)} tokens/s`);
  return [model, ...parts].filter(Boolean).join(" · ");
}

function titleOf({ numbers }) {
  if (!numbers) return "";
  const parts = [`First token after ${format.duration(numbers.first_s)}`];
  if (numbers.prompt_tokens) parts.push(`prompt of ${format.plural(numbers.prompt_tokens, "token")}`);
  if (numbers.cached_tokens) parts.push(`${format.count(numbers.cached_tokens)} of them remembered`);
  return parts.join(", ");
}
