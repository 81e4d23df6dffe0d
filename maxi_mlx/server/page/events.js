// Server-sent events, read by fetch: EventSource can't send a key.

// Takes text in any pieces, gives the data of each event that is whole.
export class EventParser {
  #line = "";
  #data = [];

  feed(text) {
    const found = [];
    const lines = (this.#line + text).split(/\r\n|\n/);
    this.#line = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line === "" && this.#data.length) {
        found.push(this.#data.join("\n"));
        this.#data = [];
      }
    }
    return found;
  }
}

export async function* eventsOf(response) {
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* parser.feed(value);
    }
  } finally {
    // Whoever stops listening closes the connection.
    reader.cancel().catch(() => {});
  }
}
