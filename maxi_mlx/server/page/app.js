// Puts the page together.

import { onKeyNeeded } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { askForKey } from "./dialogs.js";
import { byId, icon } from "./dom.js";
import { chosen, models, refresh, rememberChoice, sees } from "./models.js";
import { Sidebar } from "./sidebar.js";
import { StatusView } from "./status.js";

const DARK = window.matchMedia("(prefers-color-scheme: dark)");

onKeyNeeded(askForKey);

const status = new StatusView();
const chat = new Chat({
  changed: (id) => sidebar.refresh(id),
  setBusy: (isBusy) => composer.setBusy(isBusy),
});
const composer = new Composer({
  send: (text, images) => chat.send(text, images),
  stop: () => chat.stop(),
  fail: say,
});
const sidebar = new Sidebar({
  open: (id) => {
    location.hash = "#chat";
    chat.open(id);
    composer.focus();
  },
  forget: (id) => chat.forget(id),
});

byId("model").addEventListener("change", () => {
  rememberChoice();
  adaptToModel();
});
byId("theme").addEventListener("click", switchTheme);
DARK.addEventListener("change", showTheme);
window.addEventListener("hashchange", showView);
// A model may have come while nobody looked.
document.addEventListener("visibilitychange", () => document.hidden || refreshQuietly());

showTheme();
chat.open(null);
showView();
await loadModels();
composer.focus();

async function loadModels() {
  try {
    await refresh();
    say(null);
  } catch (error) {
    say(error.message);
  }
  adaptToModel();
}

function adaptToModel() {
  const hasModel = models.chat.length > 0;
  composer.adapt({ seesImages: sees(chosen()), hasModel });
  byId("greeting").textContent = hasModel ? "What shall it be?" : "No model to talk to yet";
  byId("how-to-begin").hidden = hasModel;
}

// A fault that belongs to no message.
function say(words) {
  byId("notice").hidden = !words;
  byId("notice-words").textContent = words ?? "";
}
byId("notice-close").addEventListener("click", () => say(null));
byId("notice-retry").addEventListener("click", loadModels);

function showView() {
  const isStatus = location.hash === "#status";
  byId("chat").hidden = isStatus;
  byId("status").hidden = !isStatus;
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = (link.hash === "#status") === isStatus;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  status.show(isStatus);
  if (isStatus) refreshQuietly();
}

// Where it fails, the next thing that is asked of the server says why.
function refreshQuietly() {
  refresh().then(adaptToModel, () => {});
}

function isDark() {
  const chosenTheme = document.documentElement.dataset.theme;
  return chosenTheme ? chosenTheme === "dark" : DARK.matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("maxi-mlx.theme", theme);
  showTheme();
}

function showTheme() {
  const button = byId("theme");
  button.title = isDark() ? "Light colours" : "Dark colours";
  button.setAttribute("aria-label", button.title);
  button.replaceChildren(icon(isDark() ? "sun" : "moon"));
}
