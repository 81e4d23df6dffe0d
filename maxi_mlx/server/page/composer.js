// The box at the bottom: words, pictures, recordings.

import { announce, byId, el, icon, iconButton } from "./dom.js";
import { shrunk } from "./images.js";
import { models } from "./models.js";
import { Recording, canRecord, transcribe } from "./recorder.js";

const MAX_HEIGHT = 240;
// On a phone's keyboard, Enter is a new line.
const TOUCHES = window.matchMedia("(pointer: coarse)");

export class Composer {
  #images = [];
  #recording = null;
  #seesImages = false;
  #isBusy = false;
  #handlers;
  #area = byId("message");

  // `handlers`: send(text, images), stop(), and fail(words).
  constructor(handlers) {
    this.#handlers = handlers;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#area.addEventListener("input", () => this.#fit());
    this.#area.addEventListener("keydown", (event) => this.#key(event));
    this.#area.addEventListener("paste", (event) => this.#paste(event));
    byId("composer").addEventListener("drop", (event) => this.#take(event.dataTransfer.files));
    // A file that is let go on a page is opened in its place.
    for (const name of ["dragover", "drop"]) {
      window.addEventListener(name, (event) => {
        if (event.dataTransfer.types.includes("Files")) event.preventDefault();
      });
    }
    byId("attach").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", ({ target }) => {
      this.#take(target.files);
      target.value = "";
    });
    byId("record").addEventListener("click", () => this.#record());
    this.#fit();
  }

  focus() {
    if (!TOUCHES.matches) this.#area.focus();
  }

  // What the model at hand can do decides which buttons there are.
  adapt({ seesImages, hasModel }) {
    this.#seesImages = seesImages;
    byId("attach").hidden = !seesImages;
    byId("record").hidden = !(models.speech.length && canRecord());
    this.#area.disabled = !hasModel;
    if (!seesImages) this.#images = [];
    this.#showImages();
    this.#fit();
  }

  setBusy(isBusy) {
    this.#isBusy = isBusy;
    const button = byId("send");
    const label = isBusy ? "Stop the answer" : "Send";
    button.setAttribute("aria-label", label);
    button.title = label;
    button.replaceChildren(icon(isBusy ? "stop" : "send"));
    this.#fit();
  }

  #submit() {
    if (this.#isBusy) return this.#handlers.stop();
    const text = this.#area.value.trim();
    if (!text && !this.#images.length) return undefined;
    const images = this.#images;
    this.#area.value = "";
    this.#images = [];
    this.#showImages();
    this.#fit();
    return this.#handlers.send(text, images);
  }

  #key(event) {
    if (event.isComposing) return; // Enter chooses among the words of an input method
    if (event.key === "Escape" && this.#isBusy) this.#handlers.stop();
    if (event.key !== "Enter" || event.shiftKey || TOUCHES.matches) return;
    event.preventDefault();
    if (!this.#isBusy) this.#submit();
  }

  #fit() {
    const area = this.#area;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, MAX_HEIGHT)}px`;
    const hasContent = area.value.trim() !== "" || this.#images.length > 0;
    byId("send").disabled = area.disabled || !(this.#isBusy || hasContent);
  }

  #paste(event) {
    const { files, types } = event.clipboardData;
    // Text out of an office program comes with a picture of itself.
    const isText = types.includes("text/plain") && types.includes("text/html");
    if (!files.length || isText) return;
    event.preventDefault();
    this.#take(files);
  }

  async #take(files) {
    if (files.length && !this.#seesImages) {
      this.#handlers.fail("The chosen model sees no pictures.");
      return;
    }
    for (const file of [...files]) {
      try {
        this.#images.push(await shrunk(file));
      } catch {
        this.#handlers.fail(`“${file.name}” is no picture that this browser can read.`);
      }
    }
    this.#showImages();
    this.#fit();
  }

  #showImages() {
    const items = this.#images.map((url, place) => {
      const remove = iconButton("close", "Remove the picture", () => {
        this.#images.splice(place, 1);
        this.#showImages();
        this.#fit();
      });
      return el("li", {}, el("img", { src: url, alt: `Picture ${place + 1}` }), remove);
    });
    byId("attached").replaceChildren(...items);
    byId("attached").hidden = !items.length;
  }

  async #record() {
    const recording = this.#recording;
    this.#recording = null;
    try {
      if (!recording) {
        this.#showRecording("wait", "Waiting for the microphone…");
        this.#recording = await Recording.start();
        this.#showRecording("stop", "Stop recording");
        announce("Recording");
        return;
      }
      this.#showRecording("wait", "Writing it down…");
      const text = await transcribe(await recording.stop(), models.speech[0].id);
      const before = this.#area.value.trimEnd();
      this.#area.value = before ? `${before} ${text}` : text;
    } catch (error) {
      const isRefused = error.name === "NotAllowedError" || error.name === "NotFoundError";
      this.#handlers.fail(isRefused ? "The browser gives no microphone to this page." : error.message);
    }
    this.#showRecording("microphone", "Record your voice");
    this.#fit();
    this.focus();
  }

  #showRecording(drawing, label) {
    const button = byId("record");
    button.replaceChildren(icon(drawing));
    button.setAttribute("aria-label", label);
    button.title = label;
    button.disabled = drawing === "wait";
    button.classList.toggle("recording", drawing === "stop");
  }
}
