"""Events to a message in one piece."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from maxi_mlx.api.anthropic.answer_schema import ContentBlock, MessageBody
from maxi_mlx.api.anthropic.signature import Thought
from maxi_mlx.api.anthropic.usage import stop_fields, usage_object
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    PrefillProgress,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)


@dataclass(slots=True, kw_only=True)
class _Block:
    """A block so far; ``pieces`` join into its text, thought or arguments."""

    kind: Literal["text", "thinking", "tool_use"]
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


class MessageAnswer:
    """Takes the events that a stream would write; `body` comes after `Completed`."""

    def __init__(self, *, id: str, model: str, max_tokens: int, shows_thoughts: bool) -> None:
        self._id = id
        self._model = model
        self._max_tokens = max_tokens
        self._shows_thoughts = shows_thoughts
        self._blocks: list[_Block] = []
        self._finished: Finished | None = None
        self._usage: Usage | None = None

    def feed(self, event: Event) -> None:
        """Raises the error of a `Failed`: there is no half of a whole answer."""
        match event:
            case TextDelta(_, text):
                self._grow("text", text)
            case ReasoningDelta(_, text):
                self._grow("thinking", text)
            case ToolCallStart(_, _, call_id, name):
                self._blocks.append(_Block(kind="tool_use", id=call_id, name=name))
            case ToolCallDelta(_, _, arguments):
                self._blocks[-1].pieces.append(arguments)
            case Finished():
                self._finished = event
            case Completed():
                self._usage = event.usage
            case Failed():
                raise event.error
            case Started() | PrefillProgress():
                pass
            case _:
                assert_never(event)

    def _grow(self, kind: Literal["text", "thinking"], text: str) -> None:
        if not text:
            return
        if not self._blocks or self._blocks[-1].kind != kind:
            self._blocks.append(_Block(kind=kind))
        self._blocks[-1].pieces.append(text)

    def body(self) -> bytes:
        if self._usage is None or self._finished is None:
            raise EngineFailed("The engine stopped before the answer was complete.")
        usage = usage_object(self._usage)
        content = [self._content(block) for block in self._blocks]
        if not self._max_tokens:
            usage["output_tokens"] = 0
            content = []
        answer: MessageBody = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            **stop_fields(self._finished, max_tokens=self._max_tokens),
            "usage": usage,
        }
        return to_json(answer)

    def _content(self, block: _Block) -> ContentBlock:
        text = "".join(block.pieces)
        match block.kind:
            case "text":
                return {"type": "text", "text": text}
            case "thinking":
                thought = Thought(is_shown=self._shows_thoughts)
                thought.add(text)
                shown = text if self._shows_thoughts else ""
                return {"type": "thinking", "thinking": shown, "signature": thought.signature}
            case "tool_use":
                given = _arguments(text)
                return {"type": "tool_use", "id": block.id, "name": block.name, "input": given}
            case _:
                assert_never(block.kind)


def _arguments(text: str) -> dict[str, Any]:
    """An object, as this API has it. What ``max_tokens`` cut in the middle is no JSON, and no part
    of it may pass for the whole: then the object is empty, and the stop reason tells why."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
