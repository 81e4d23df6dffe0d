// Puts the page together.

import { onKeyNeeded } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import * as conversations from "./conversations.js";
import { askForKey } from "./dialogs.js";
import { byId, icon } from "./dom.js";
import { chosen, models, refresh, rememberChoice, sees } from "./models.js";
import { Sidebar } from "./sidebar.js";
import { StatusView } from "./status.js";
import { remember } from "./storage.js";

const CHAT = "#chat";
const STATUS = "#status";
const DARK = window.matchMedia("(prefers-color-scheme: dark)");

// The conversation is in the address: it is there again after a reload, and by the way back.
const addressOf = (id) => (id ? `${CHAT}/${id}` : CHAT);
const askedId = () => location.hash.split(`${CHAT}/`)[1] ?? null;

onKeyNeeded(askForKey);

const status = new StatusView();
const chat = new Chat({
  changed: showConversation,
  setBusy: (isBusy) => composer.setBusy(isBusy),
  fail: say,
});
const composer = new Composer({
  send: (text, images) => {
    say(null);
    return chat.send(text, images);
  },
  stop: () => chat.stop(),
  fail: say,
});
const sidebar = new Sidebar({
  open: (id) => {
    if (location.hash !== addressOf(id)) history.pushState(null, "", addressOf(id));
    showView();
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
window.addEventListener("storage", ({ key }) => {
  const id = conversations.idOf(key);
  if (id) chat.reload(id);
  sidebar.refresh();
});
// A model may have come while nobody looked.
document.addEventListener("visibilitychange", () => document.hidden || refreshQuietly());

showTheme();
chat.open(askedId());
showView();
await loadModels();
composer.focus();

async function loadModels() {
  try {
    say(await refresh(chat.model));
  } catch (error) {
    say(error.message, { canRetry: true });
  }
  adaptToModel();
}

function adaptToModel() {
  const hasModel = models.chat.length > 0;
  composer.adapt({ seesImages: sees(chosen()), hasModel });
  byId("greeting").textContent = hasModel ? "What shall it be?" : "No model to talk to yet";
  byId("how-to-begin").hidden = hasModel;
}

// A fault that belongs to no message. What is tried again is to ask for the models.
function say(words, { canRetry = false } = {}) {
  byId("notice").hidden = !words;
  byId("notice-retry").hidden = !canRetry;
  byId("notice-words").textContent = words ?? "";
}
byId("notice-close").addEventListener("click", () => say(null));
byId("notice-retry").addEventListener("click", async () => {
  await loadModels();
  showView();
});

function showConversation(id) {
  sidebar.refresh(id);
  byId("to-chat").href = addressOf(id);
  const isStale = location.hash !== STATUS && location.hash !== addressOf(id);
  if (isStale) history.replaceState(null, "", addressOf(id));
}

function showView() {
  const isStatus = location.hash === STATUS;
  if (location.hash.startsWith(CHAT) && askedId() !== chat.shownId) chat.open(askedId());
  byId("chat").hidden = isStatus;
  byId("status").hidden = !isStatus;
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = (link.hash === STATUS) === isStatus;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  status.show(isStatus);
  if (isStatus) refreshQuietly();
}

// Where it fails, the next thing that is asked of the server says why.
function refreshQuietly() {
  refresh(chat.model).then(
    (words) => {
      if (words) say(words);
      adaptToModel();
    },
    () => {},
  );
}

function isDark() {
  const chosenTheme = document.documentElement.dataset.theme;
  return chosenTheme ? chosenTheme === "dark" : DARK.matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember("maxi-mlx.theme", theme);
  showTheme();
}

function showTheme() {
  const button = byId("theme");
  button.title = isDark() ? "Light colours" : "Dark colours";
  button.setAttribute("aria-label", button.title);
  button.replaceChildren(icon(isDark() ? "sun" : "moon"));
}
