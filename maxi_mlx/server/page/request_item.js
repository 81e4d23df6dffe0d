// A request that is under way, in the status view.

import { Failure } from "./api.js";
import { el } from "./dom.js";
import * as format from "./format.js";

const APIS = {
  openai: "OpenAI",
  responses: "Responses",
  anthropic: "Anthropic",
  ollama: "Ollama",
  lm_studio: "LM Studio",
  jina: "Rerank",
};

export function requestItem(request, { cancel }) {
  const badge = el("span", { class: "badge busy" });
  const detail = el("p", { class: "detail" });
  const button = el("button", { type: "button", class: "button small" }, "Cancel");
  button.setAttribute("aria-label", `Cancel the request to ${request.model ?? "a model"}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await cancel();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.status !== 404) button.disabled = false; // else it has ended by itself
    }
  });
  const name = el("h4");
  const head = el("div", { class: "item-head" }, name, badge, button);
  const element = el("li", { class: "item" }, head, detail);
  const update = (now) => {
    name.textContent = now.model ?? "Any model";
    badge.textContent = now.phase;
    detail.textContent = detailOf(now);
  };
  return { element, update };
}

function detailOf(request) {
  const { prompt_tokens, read_tokens, completion_tokens, tokens_per_second } = request;
  const parts = [APIS[request.api] ?? request.path];
  if (request.phase === "reading" && prompt_tokens && read_tokens < prompt_tokens) {
    parts.push(`${format.count(read_tokens)} of ${format.plural(prompt_tokens, "prompt token")}`);
  } else if (prompt_tokens) parts.push(format.plural(prompt_tokens, "prompt token"));
  if (completion_tokens) parts.push(format.plural(completion_tokens, "token"));
  if (tokens_per_second) parts.push(`${format.rate(tokens_per_second)} tokens/s`);
  parts.push(format.duration(request.elapsed_s));
  return parts.join(" · ");
}
