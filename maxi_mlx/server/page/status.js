// What the server is doing, as long as somebody looks at it.

import { post, send } from "./api.js";
import { byId, el } from "./dom.js";
import { eventsOf } from "./events.js";
import * as format from "./format.js";
import { modelItem } from "./model_item.js";
import { models } from "./models.js";
import { requestItem } from "./request_item.js";

const BETWEEN_TRIES_MS = 2000;
const NUM_SPEEDS = 60;

export class StatusView {
  #watching = null;
  #isOpen = false;
  #speeds = new Array(NUM_SPEEDS).fill(0);
  #models = new Map();
  #requests = new Map();

  constructor() {
    document.addEventListener("visibilitychange", () => this.#adapt());
  }

  show(isOpen) {
    this.#isOpen = isOpen;
    this.#adapt();
  }

  #adapt() {
    const isWatched = this.#isOpen && !document.hidden;
    if (isWatched === Boolean(this.#watching)) return;
    this.#watching?.abort();
    this.#watching = isWatched ? new AbortController() : null;
    if (isWatched) this.#watch(this.#watching.signal);
  }

  async #watch(signal) {
    while (!signal.aborted) {
      let isRefused = false;
      let words = "The server ended the connection. Trying again…";
      try {
        const response = await send("v1/status/events", { signal });
        for await (const data of eventsOf(response)) {
          if (signal.aborted) return;
          this.#take(JSON.parse(data));
        }
      } catch (error) {
        words = error.message;
        isRefused = error.status === 401;
      }
      if (signal.aborted) return;
      this.#say(words);
      if (isRefused) {
        this.#watching = null; // nobody is asked for a key every few seconds
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_TRIES_MS));
    }
  }

  #say(words) {
    byId("status-fault").textContent = words ?? "";
    byId("status-fault").hidden = !words;
  }

  #take(status) {
    this.#say(status.fault);
    this.#speeds = [...this.#speeds.slice(1), status.tokens_per_second];
    byId("status-speed").textContent = format.rate(status.tokens_per_second);
    byId("status-tokens").textContent =
      `${format.plural(status.completion_tokens, "token")} written since the start`;
    drawLine(byId("status-line"), this.#speeds);
    byId("status-running").textContent = format.count(status.num_running);
    byId("status-waiting").textContent = status.num_waiting
      ? `${format.count(status.num_waiting)} waiting`
      : "none waiting";
    showCache(status.prefix_cache);
    byId("status-about").textContent =
      `maxi-mlx ${status.version}, ${wordOf(status.state)}, up for ${format.duration(status.uptime_s)}`;
    showMemory(status);
    this.#showModels(status);
    this.#showRequests(status.requests);
  }

  #showModels(status) {
    const loaded = new Map(status.models.map((model) => [model.id, model]));
    const known = models.all.filter(({ id }) => !loaded.has(id));
    const shown = [...status.models, ...known].map(({ id }) => ({
      entry: models.all.find((model) => model.id === id) ?? { id },
      loaded: loaded.get(id) ?? null,
    }));
    update(byId("status-models"), this.#models, shown, ({ entry }) => entry.id, modelItem);
    byId("no-models").hidden = shown.length > 0;
  }

  #showRequests(requests) {
    update(byId("status-requests"), this.#requests, requests, ({ id }) => id, (request) =>
      requestItem(request, { cancel: () => post(`v1/status/requests/${request.id}/cancel`) }),
    );
    byId("no-requests").hidden = requests.length > 0;
  }
}

// Keeps the items that are there, so that a button doesn't go from under a finger.
function update(list, items, values, idOf, make) {
  const ids = new Set(values.map(idOf));
  for (const [id, item] of items) {
    if (!ids.has(id)) {
      item.element.remove();
      items.delete(id);
    }
  }
  values.forEach((value, place) => {
    const id = idOf(value);
    if (!items.has(id)) items.set(id, make(value));
    const item = items.get(id);
    item.update(value);
    if (list.children[place] !== item.element) {
      list.insertBefore(item.element, list.children[place] ?? null);
    }
  });
}

function wordOf(state) {
  return { ready: "ready", starting: "starting", draining: "ending", failed: "failed" }[state];
}

function drawLine(svg, speeds) {
  const most = Math.max(1, ...speeds);
  const points = speeds.map((speed, place) => {
    const x = place * (100 / (NUM_SPEEDS - 1));
    return `${x.toFixed(2)},${(29 - (speed / most) * 27).toFixed(2)}`;
  });
  svg.querySelector("polyline").setAttribute("points", points.join(" "));
  svg.querySelector("polygon").setAttribute("points", `0,30 ${points.join(" ")} 100,30`);
}

function showCache(cache) {
  const rate = cache.hit_rate_last_hour;
  byId("status-hits").textContent = rate === null ? "–" : format.percent(rate);
  byId("status-saved").textContent = cache.tokens_saved
    ? `${format.count(cache.tokens_saved)} prompt tokens not read again`
    : "nothing was used again yet";
  showBar("bar-prefixes", [["prefixes", cache.bytes]], cache.limit_bytes);
  byId("bar-disk").closest(".meter").hidden = cache.disk_limit_bytes === null;
  if (cache.disk_limit_bytes !== null) {
    showBar("bar-disk", [["disk", cache.disk_bytes]], cache.disk_limit_bytes);
  }
}

function showMemory(status) {
  const { memory, weight_bytes, kv_cache_bytes, prefix_cache } = status;
  if (memory === null) return;
  const parts = [
    ["weights", weight_bytes],
    ["kv", kv_cache_bytes],
    ["prefixes", prefix_cache.bytes],
  ];
  const named = parts.reduce((sum, [, each]) => sum + each, 0);
  parts.push(["other", Math.max(0, memory.active_bytes - named)]);
  showBar("bar-memory", parts, memory.limit_bytes);
  for (const [name, each] of parts) byId(`legend-${name}`).textContent = format.bytes(each);
}

function showBar(id, parts, limit) {
  const bar = byId(id);
  const sum = parts.reduce((total, [, each]) => total + each, 0);
  const words = `${format.bytes(sum)} of ${format.bytes(limit)}`;
  while (bar.children.length < parts.length) bar.append(el("span"));
  parts.forEach(([name, each], place) => {
    const part = bar.children[place];
    part.className = `part ${name}`;
    part.style.width = `${limit ? Math.min(100, (each / limit) * 100) : 0}%`;
    part.hidden = each === 0;
  });
  bar.setAttribute("aria-valuemax", String(limit));
  bar.setAttribute("aria-valuenow", String(Math.min(sum, limit)));
  bar.setAttribute("aria-valuetext", words);
  byId(`${id}-words`).textContent = words;
}
