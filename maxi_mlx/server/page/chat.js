// The conversation on the page, and the answers that are under way. An answer goes on when another
// conversation is opened meanwhile.

import { fetchAnswer } from "./answers.js";
import * as conversations from "./conversations.js";
import { announce, byId } from "./dom.js";
import { AnswerView, userElement } from "./message.js";
import { choose, chosen } from "./models.js";

const BETWEEN_SAVES_MS = 2000;
const NEAR_END_PX = 60;
const NOT_KEPT =
  "This conversation is larger than the browser keeps. What is new of it goes when the page is closed.";

export class Chat {
  #conversation = null;
  #running = new Map(); // by the conversation's id: {conversation, controller, view}
  #handlers;
  #isFollowing = true;

  // `handlers`: changed(id of the conversation that is shown), setBusy(whether it is answered), and
  // fail(words).
  constructor(handlers) {
    this.#handlers = handlers;
    byId("scroll").addEventListener("scroll", () => this.#noteScroll(), { passive: true });
    byId("latest").addEventListener("click", () => this.#follow());
  }

  get shownId() {
    return this.#conversation?.id ?? null;
  }

  get model() {
    return this.#conversation?.model ?? null;
  }

  open(id) {
    const conversation = id && (this.#running.get(id)?.conversation ?? conversations.load(id));
    this.#conversation = conversation || null;
    const words = conversation && choose(conversation.model);
    if (words) this.#handlers.fail(words);
    this.#showAll();
    this.#follow();
  }

  // Another tab has gone on with it, or deleted it.
  reload(id) {
    const stored = conversations.load(id);
    if (!stored) {
      this.forget(id);
      return;
    }
    const isEdited = byId("messages").querySelector(".editing");
    if (id !== this.shownId || this.#running.has(id) || isEdited) return;
    this.#conversation = stored;
    this.#showAll();
    this.#keepUp();
  }

  async send(text, images = []) {
    this.#conversation ??= conversations.create(chosen());
    const message = { role: "user", text };
    if (images.length) message.images = images;
    this.#conversation.messages.push(message);
    byId("messages").append(this.#userElement(message));
    await this.#answer();
  }

  stop() {
    this.#running.get(this.#conversation?.id)?.controller.abort();
  }

  forget(id) {
    this.#running.get(id)?.controller.abort();
    this.#running.delete(id);
    conversations.forget(id);
    if (id === this.#conversation?.id) this.open(null);
    else this.#handlers.changed(this.shownId);
  }

  async #answer() {
    const conversation = this.#conversation;
    conversation.model = chosen();
    const answer = { role: "assistant", text: "", model: conversation.model, isUnfinished: true };
    conversation.messages.push(answer);
    let isKept = this.#save(conversation);
    const controller = new AbortController();
    const view = this.#answerView(answer);
    this.#running.set(conversation.id, { conversation, controller, view });
    view.wait();
    this.#placed(view);
    this.#showBusy();
    let savedAt = performance.now();
    const changed = () => {
      view.draw(() => this.#keepUp());
      if (isKept && performance.now() - savedAt > BETWEEN_SAVES_MS) {
        savedAt = performance.now();
        isKept = this.#save(conversation);
      }
    };
    try {
      await fetchAnswer(conversation, answer, { changed, signal: controller.signal });
      announce(answer.stopped ? "The answer was stopped" : "The answer is complete");
    } catch (error) {
      answer.error = error.message;
    }
    delete answer.isUnfinished;
    view.finish();
    if (this.#running.get(conversation.id)?.view !== view) return; // another took its place
    this.#running.delete(conversation.id);
    this.#save(conversation);
    this.#keepUp();
    this.#showBusy();
  }

  #save(conversation) {
    const isKept = conversations.save(conversation);
    if (!isKept) this.#handlers.fail(NOT_KEPT);
    return isKept;
  }

  // What came after the place is said anew.
  #sendAgain(message, text) {
    this.#endRunning();
    const { messages } = this.#conversation;
    messages.length = messages.indexOf(message);
    this.#showAll();
    return this.send(text, message.images);
  }

  #retry(answer) {
    this.#endRunning();
    const { messages } = this.#conversation;
    messages.length = messages.indexOf(answer);
    this.#showAll();
    return this.#answer();
  }

  #endRunning() {
    this.stop();
    this.#running.delete(this.#conversation.id);
  }

  #showAll() {
    const messages = this.#conversation?.messages ?? [];
    byId("messages").replaceChildren(...messages.map((message) => this.#element(message)));
    this.#showBusy();
  }

  #element(message) {
    if (message.role === "user") return this.#userElement(message);
    const running = this.#running.get(this.#conversation.id);
    if (running && message === this.#conversation.messages.at(-1)) return running.view.element;
    const view = this.#answerView(message);
    view.finish();
    return view.element;
  }

  #userElement(message) {
    return userElement(message, { edit: (text) => this.#sendAgain(message, text) });
  }

  #answerView(answer) {
    return new AnswerView(answer, { retry: () => this.#retry(answer) });
  }

  #placed(view) {
    byId("messages").append(view.element);
    this.#follow();
  }

  #showBusy() {
    const id = this.shownId;
    byId("empty").hidden = Boolean(this.#conversation?.messages.length);
    this.#handlers.setBusy(this.#running.has(id));
    this.#handlers.changed(id);
  }

  // The end stays in sight, until somebody scrolls away from it.
  #follow() {
    this.#isFollowing = true;
    this.#keepUp();
  }

  #keepUp() {
    const scroll = byId("scroll");
    if (this.#isFollowing) scroll.scrollTop = scroll.scrollHeight;
    this.#noteScroll();
  }

  #noteScroll() {
    const { scrollHeight, scrollTop, clientHeight } = byId("scroll");
    this.#isFollowing = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    byId("latest").hidden = this.#isFollowing;
  }
}
