// Asks the server. What goes wrong is a Failure, whose message is for people.

import { session } from "./storage.js";

const KEY = "maxi-mlx.key";
const UNREACHABLE = "The server can't be reached. Is maxi-mlx still running?";

export class Failure extends Error {
  constructor(message, { status = 0, code = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let askForKey = async () => null;
let asking = null;

// `ask(was wrong)` gives a key, or null where there is none to be had.
export function onKeyNeeded(ask) {
  askForKey = ask;
}

// The key is kept for this tab alone, and as long as it is open.
function keyHeader() {
  const key = session.getItem(KEY);
  return key ? { Authorization: `Bearer ${headerText(key)}` } : {};
}

// A header's characters are bytes. The server reads them as UTF-8.
const headerText = (text) => String.fromCharCode(...new TextEncoder().encode(text));

// Several requests may find out at once; there is one question for all.
async function newKey(refused) {
  if (refused !== session.getItem(KEY)) return true; // another has asked meanwhile
  asking ??= askForKey(refused !== null).finally(() => (asking = null));
  const key = await asking;
  if (key) session.setItem(KEY, key);
  return Boolean(key);
}

// `json` is sent as the body; a body of its own (a form) goes as it is.
export async function send(path, { json, body, method, signal } = {}) {
  const headers = json === undefined ? {} : { "Content-Type": "application/json" };
  const content = json === undefined ? body : JSON.stringify(json);
  for (;;) {
    const used = session.getItem(KEY);
    let response;
    try {
      response = await fetch(path, {
        method: method ?? (content === undefined ? "GET" : "POST"),
        headers: { ...headers, ...keyHeader() },
        body: content,
        signal,
        credentials: "omit",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure(UNREACHABLE);
    }
    if (response.ok) return response;
    if (response.status !== 401 || !(await newKey(used))) throw await failureOf(response);
  }
}

export async function get(path) {
  return (await send(path)).json();
}

export async function post(path, json = {}) {
  return (await send(path, { json })).json();
}

async function failureOf(response) {
  const text = await response.text();
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    // Something between here and the server has answered.
  }
  const message = error.message ?? `The server answered ${response.status} ${response.statusText}.`;
  return new Failure(message, { status: response.status, code: error.code });
}
