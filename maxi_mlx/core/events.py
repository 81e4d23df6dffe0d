"""What the engine answers with: one stream of events, the same whether a client streams or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxi_mlx.core.errors import MaxiError

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """An alternative at one place; ``logprob`` is a natural logarithm."""

    token_id: int
    text: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A generated token. The ``data`` of all tokens of an answer join into its UTF-8 text, up to
    a stop string, which may end inside a token; a special token has a name and no data."""

    token_id: int
    text: str
    data: bytes
    logprob: float
    top: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. Stop and end tokens that were generated count as completion tokens, and so do
    those of thoughts and of their tags (``reasoning_tokens``)."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: waiting for a place, reading the prompt, to the first token, writing the answer.
    Of the wait, ``load_s`` was for the model, which had to be loaded or made room for."""

    queue_s: float
    prefill_s: float
    first_token_s: float
    decode_s: float
    load_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Started:
    """The request was admitted; comes before any prefill. ``model`` is the id that answers."""

    model: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """So many of the prompt's tokens are read. Writers may ignore it or show that work goes on."""

    processed_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of one answer. ``text`` may be empty where only tokens came (with logprobs)."""

    choice: int
    text: str
    tokens: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what one answer thinks before it speaks, without the tags around it."""

    choice: int
    text: str
    tokens: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """One answer calls a tool: its ``index``-th call, from 0. Calls don't interleave."""

    choice: int
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of a call's arguments. The pieces of one call join into the text of a JSON object."""

    choice: int
    index: int
    arguments: str


@dataclass(frozen=True, slots=True)
class Finished:
    """One answer ended. ``stop_string`` is the one that matched, if that was the reason; the reason
    is ``tool_calls`` where it called tools and then ended by itself."""

    choice: int
    reason: FinishReason
    stop_string: str | None
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Completed:
    """All answers ended; the last event of a good stream."""

    usage: Usage
    timings: Timings


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended in an error; the last event of a bad stream."""

    error: MaxiError


Event = (
    Started
    | PrefillProgress
    | TextDelta
    | ReasoningDelta
    | ToolCallStart
    | ToolCallDelta
    | Finished
    | Completed
    | Failed
)
