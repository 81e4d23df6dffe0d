// Which models there are, and which one answers.

import { get } from "./api.js";
import { byId, el } from "./dom.js";
import { local, remember } from "./storage.js";

const CHOSEN = "maxi-mlx.model";
const SEES = "images";

export const models = { chat: [], speech: [], all: [] };

const can = (model, ability) => model.abilities.includes(ability);

export const sees = (id) => models.chat.some((model) => model.id === id && can(model, SEES));

export const chosen = () => byId("model").value;

// What to say where the model isn't there, so that another one answers; else null.
export function choose(id) {
  const isHere = models.chat.some((model) => model.id === id);
  if (isHere) byId("model").value = id;
  byId("model").dispatchEvent(new Event("change"));
  if (isHere || !id || !chosen()) return null;
  return `The model ${id} isn't here any more. The next message goes to ${chosen()}.`;
}

// `wanted` is the model to begin with. Gives what `choose` says.
export async function refresh(wanted) {
  const { data } = await get("v1/models");
  models.all = data;
  models.chat = data.filter((model) => can(model, "chat"));
  models.speech = data.filter((model) => can(model, "transcriptions"));
  const before = chosen() || wanted || local.getItem(CHOSEN) || (await loadedModel());
  const options = models.chat.map(({ id }) => el("option", { value: id }, id));
  if (!options.length) options.push(el("option", { value: "" }, "No models yet"));
  byId("model").replaceChildren(...options);
  byId("model").disabled = !models.chat.length;
  return choose(before);
}

async function loadedModel() {
  const { models: loaded } = await get("v1/status");
  const ids = models.chat.map((model) => model.id);
  return loaded.map((model) => model.id).find((id) => ids.includes(id)) ?? null;
}

export function rememberChoice() {
  if (chosen()) remember(CHOSEN, chosen());
}
