"""What the load client reads of an OpenAI-compatible server's answers, and nothing more.

A machine: bytes of one event or body in, values out. Knows no socket and no clock.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None


class Choice(msgspec.Struct):
    delta: Delta | None = None  # a chat stream
    message: Delta | None = None  # a chat answer
    text: str | None = None  # a completion, streamed or not
    finish_reason: str | None = None


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: PromptDetails | None = None

    @property
    def cached_tokens(self) -> int:
        """Of the prompt; 0 where a server says nothing of them."""
        details = self.prompt_tokens_details
        return (details.cached_tokens or 0) if details is not None else 0


class Answer(msgspec.Struct):
    """A whole answer, or one event of a stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None

    @property
    def has_text(self) -> bool:
        return any(_writes(choice) for choice in self.choices)

    @property
    def is_finished(self) -> bool:
        return any(choice.finish_reason is not None for choice in self.choices)


_decoder = msgspec.json.Decoder(Answer)


def read_answer(data: bytes) -> Answer:
    """Raises msgspec.DecodeError where ``data`` is not an answer."""
    return _decoder.decode(data)


def event_data(line: bytes) -> bytes | None:
    """The data of one line of an event stream; None for comments, other fields and blank lines."""
    if not line.startswith(b"data:"):
        return None
    return line[len(b"data:") :].strip()


def _writes(choice: Choice) -> bool:
    part = choice.delta or choice.message
    if part is None:
        return bool(choice.text)
    return bool(part.content or part.reasoning_content or part.reasoning or part.tool_calls)
