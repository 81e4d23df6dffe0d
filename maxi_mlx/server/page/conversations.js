// The conversations, kept in this browser's own storage and nowhere else.
//
// A conversation is {id, title, model, changed, messages}; a message is {role, text, …}, and one of
// the model's also has what is known of it: {reasoning, thought_s, numbers, error, stopped}.

const PREFIX = "maxi-mlx.conversation.";
const TITLE_LENGTH = 60;

export function all() {
  const found = [];
  for (let place = 0; place < localStorage.length; place++) {
    const name = localStorage.key(place);
    if (name.startsWith(PREFIX)) found.push(read(name));
  }
  return found.filter(Boolean).sort((a, b) => b.changed - a.changed);
}

export const load = (id) => read(PREFIX + id);

export const forget = (id) => localStorage.removeItem(PREFIX + id);

export function create(model) {
  // Not randomUUID, which browsers keep from pages without https.
  const parts = crypto.getRandomValues(new Uint32Array(2));
  return { id: parts.join("-"), title: "", model, changed: Date.now(), messages: [] };
}

// Makes room by the oldest others, where the browser gives no more.
export function save(conversation) {
  conversation.changed = Date.now();
  conversation.title ||= titleOf(conversation);
  const written = JSON.stringify(conversation);
  for (;;) {
    try {
      localStorage.setItem(PREFIX + conversation.id, written);
      return;
    } catch (error) {
      const oldest = all().findLast((each) => each.id !== conversation.id);
      if (error.name !== "QuotaExceededError" || !oldest) return;
      forget(oldest.id);
    }
  }
}

export const isOf = (storedName) => storedName === null || storedName.startsWith(PREFIX);

function titleOf({ messages }) {
  const first = messages.find((message) => message.role === "user");
  const line = first?.text.trim().split("\n", 1)[0] || "Picture";
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH - 1)}…` : line;
}

function read(name) {
  try {
    const conversation = JSON.parse(localStorage.getItem(name));
    return Array.isArray(conversation?.messages) ? conversation : null;
  } catch {
    return null; // not ours, or of another version
  }
}
