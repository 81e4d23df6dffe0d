// What this browser keeps for the page: `local` for good, `session` as long as the tab is open. One
// that keeps nothing for pages is told apart by `isKept`; the page then works until it is closed.

class Memory {
  #texts = new Map();

  get length() {
    return this.#texts.size;
  }

  key(place) {
    return [...this.#texts.keys()][place] ?? null;
  }

  getItem(name) {
    return this.#texts.get(name) ?? null;
  }

  setItem(name, text) {
    this.#texts.set(name, text);
  }

  removeItem(name) {
    this.#texts.delete(name);
  }
}

function storage(name) {
  try {
    return window[name] ?? new Memory();
  } catch {
    return new Memory(); // to ask for it is forbidden, too
  }
}

export const local = storage("localStorage");
export const session = storage("sessionStorage");
export const isKept = !(local instanceof Memory);

// A choice. Where there is no more room it is for this time only, as it may be made again.
export function remember(name, text) {
  try {
    local.setItem(name, text);
  } catch (error) {
    if (error.name !== "QuotaExceededError") throw error;
  }
}
