// The conversations, kept in this browser's own storage and nowhere else.
//
// A conversation is {id, title, model, changed, messages}; a message is {role, text, …}, and one of
// the model's also has what is known of it: {reasoning, thought_s, numbers, error, stopped, isUnfinished}.

import { local } from "./storage.js";

const PREFIX = "maxi-mlx.conversation.";
const TITLE_LENGTH = 60;

export function all() {
  const found = [];
  for (let place = 0; place < local.length; place++) {
    const name = local.key(place);
    if (name.startsWith(PREFIX)) found.push(read(name));
  }
  return found.filter(Boolean).sort((a, b) => b.changed - a.changed);
}

export const load = (id) => read(PREFIX + id);

export const forget = (id) => local.removeItem(PREFIX + id);

export function create(model) {
  // Not randomUUID, which browsers keep from pages without https.
  const parts = crypto.getRandomValues(new Uint32Array(2));
  return { id: parts.join("-"), title: "", model, changed: Date.now(), messages: [] };
}

// Whether it is kept. Makes room by the oldest others where the browser gives no more; none of them
// goes for one that is too large by itself.
export function save(conversation) {
  conversation.changed = Date.now();
  conversation.title ||= titleOf(conversation);
  const written = JSON.stringify(conversation);
  const others = all().filter((each) => each.id !== conversation.id);
  const removed = [];
  while (!isStored(PREFIX + conversation.id, written)) {
    const oldest = others.pop();
    if (!oldest) {
      for (const [name, text] of removed) local.setItem(name, text);
      return false;
    }
    removed.push([PREFIX + oldest.id, local.getItem(PREFIX + oldest.id)]);
    forget(oldest.id);
  }
  return true;
}

function isStored(name, text) {
  try {
    local.setItem(name, text);
    return true;
  } catch (error) {
    if (error.name !== "QuotaExceededError") throw error;
    return false;
  }
}

// Of what is stored under a name; undefined where it is something else.
export const idOf = (name) => (name?.startsWith(PREFIX) ? name.slice(PREFIX.length) : undefined);

function titleOf({ messages }) {
  const first = messages.find((message) => message.role === "user");
  const line = first?.text.trim().split("\n", 1)[0] || "Picture";
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH - 1)}…` : line;
}

function read(name) {
  try {
    const conversation = JSON.parse(local.getItem(name));
    return Array.isArray(conversation?.messages) ? conversation : null;
  } catch {
    return null; // not ours, or of another version
  }
}
