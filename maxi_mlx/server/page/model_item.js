// A model in the status view, with what can be done to it.

import { Failure, post } from "./api.js";
import { el } from "./dom.js";
import * as format from "./format.js";
import { models } from "./models.js";

const KINDS = {
  language: "language",
  vision: "language and pictures",
  embedding: "embeddings",
  reranker: "reranking",
  speech: "speech",
};

export function modelItem({ entry }) {
  const badge = el("span", { class: "badge" });
  const detail = el("p", { class: "detail" });
  const fault = el("p", { class: "wrong", role: "alert", hidden: true });
  let isLoaded = false;
  let isAsked = false;
  const button = el("button", { type: "button", class: "button small" });
  const ask = async () => {
    isAsked = true;
    fault.hidden = button.disabled = true;
    try {
      if (isLoaded) await post("api/v1/models/unload", { instance_id: entry.id });
      else await post("api/v1/models/load", { model: entry.id });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      fault.textContent = error.message;
      fault.hidden = false;
    }
    isAsked = button.disabled = false;
  };
  button.addEventListener("click", ask);
  const head = el("div", { class: "item-head" }, el("h4", {}, entry.id), badge, button);
  const element = el("li", { class: "item" }, head, detail, fault);

  const update = ({ loaded }) => {
    isLoaded = loaded?.state === "ready";
    const word = isLoaded ? "loaded" : loaded ? "loading" : isAsked ? "waiting" : "not loaded";
    badge.textContent = word;
    badge.className = `badge ${isLoaded ? "good" : loaded || isAsked ? "busy" : ""}`;
    detail.textContent = detailOf(entry, loaded);
    button.textContent = isLoaded ? "Unload" : "Load";
    button.setAttribute("aria-label", `${button.textContent} ${entry.id}`);
    button.disabled = isAsked || loaded?.state === "loading";
  };
  return { element, update };
}

function detailOf(entry, loaded) {
  const known = models.all.find(({ id }) => id === entry.id) ?? entry;
  const parts = [KINDS[known.kind], known.quantization];
  if (loaded) {
    parts.push(`${format.bytes(loaded.weight_bytes)} of weights`);
    if (loaded.num_running) parts.push(format.plural(loaded.num_running, "answer"));
    if (loaded.kv_cache_bytes) parts.push(`${format.bytes(loaded.kv_cache_bytes)} of keys and values`);
    if (loaded.is_pinned) parts.push("pinned");
    else if (loaded.expires_in_s !== null && !loaded.num_running) {
      parts.push(`unloads in ${format.duration(loaded.expires_in_s)}`);
    }
  }
  return parts.filter(Boolean).join(" · ");
}
