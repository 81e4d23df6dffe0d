// One answer of a model, as it comes: asks, reads the stream, and counts.

import { Failure, send } from "./api.js";
import { eventsOf } from "./events.js";

const BROKEN_OFF = "The answer broke off: the connection to the server was lost.";

// Fills `answer` and calls `changed` after each piece. Throws a Failure; `signal` ends it early,
// without one.
export async function fetchAnswer(conversation, answer, { changed, signal }) {
  const clock = { began: performance.now(), first: 0, text: 0 };
  try {
    const response = await send("v1/chat/completions", { json: bodyOf(conversation), signal });
    answer.id = response.headers.get("X-Request-Id");
    let isWhole = false;
    for await (const data of eventsOf(response)) {
      isWhole ||= data === "[DONE]";
      if (!isWhole) take(JSON.parse(data), answer, clock);
      changed();
    }
    if (!isWhole) throw new Failure(BROKEN_OFF);
  } catch (error) {
    if (signal.aborted) answer.stopped = true;
    else throw error instanceof Failure ? error : new Failure(BROKEN_OFF);
  } finally {
    sum(answer, clock);
  }
}

function take(chunk, answer, clock) {
  if (chunk.error) throw new Failure(chunk.error.message, { code: chunk.error.code });
  if (chunk.usage) answer.usage = chunk.usage;
  if (chunk.model) answer.model = chunk.model;
  const choice = chunk.choices?.[0];
  const { content, reasoning_content: thought } = choice?.delta ?? {};
  if (content || thought) clock.first ||= performance.now();
  if (thought) answer.reasoning = (answer.reasoning ?? "") + thought;
  if (content) {
    clock.text ||= performance.now();
    if (answer.reasoning) answer.thought_s ??= (clock.text - clock.first) / 1000;
    answer.text += content;
  }
  if (choice?.finish_reason === "length") answer.isCut = true;
  answer.num_pieces = (answer.num_pieces ?? 0) + (content || thought ? 1 : 0);
}

// What is shown below an answer. Of one that was ended early nobody has told how many tokens it has:
// it has about as many as pieces.
function sum(answer, { began, first }) {
  if (!first) return;
  const seconds = (performance.now() - first) / 1000;
  const tokens = answer.usage?.completion_tokens ?? answer.num_pieces;
  answer.numbers = {
    tokens,
    first_s: (first - began) / 1000,
    tokens_per_second: tokens > 1 && seconds > 0.02 ? (tokens - 1) / seconds : null,
    prompt_tokens: answer.usage?.prompt_tokens ?? null,
    cached_tokens: answer.usage?.prompt_tokens_details?.cached_tokens ?? null,
  };
  if (answer.reasoning && !answer.text) answer.thought_s = seconds;
  delete answer.usage;
  delete answer.num_pieces;
}

// All but the answer that is to come. Thoughts aren't sent back: models are trained to go without.
function bodyOf({ model, messages }) {
  const told = messages.slice(0, -1).filter((message) => message.role === "user" || message.text);
  return {
    model,
    messages: told.map((message) => ({ role: message.role, content: contentOf(message) })),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function contentOf({ text, images }) {
  if (!images?.length) return text;
  const parts = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return text ? [...parts, { type: "text", text }] : parts;
}
