"""Events to the lines of a stream: an object a line, the last with ``done``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, assert_never

from maxi_mlx.api.ollama.answer_schema import CalledTool, ChatMessage
from maxi_mlx.api.ollama.context import encode_context
from maxi_mlx.api.ollama.errors import error_body
from maxi_mlx.api.ollama.pieces import CallGatherer, ending, logprobs
from maxi_mlx.api.openai.sse import to_json
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
)
from maxi_mlx.core.request import Message

Calls = list[CalledTool]


class LineWriter(ABC):
    """Serves one stream, with one answer in it. ``created_at`` is the request's time, in the form
    of RFC 3339, on every line. ``history`` is as a `WritingCall` has it."""

    def __init__(
        self,
        *,
        model: str,
        created_at: str,
        logprobs: bool = False,
        history: Sequence[Message] | None = None,
    ) -> None:
        self._head = {"model": model, "created_at": created_at}
        self._has_logprobs = logprobs
        self._history = history
        self._said: list[str] = []  # kept only where a context is to be told
        self._calls = CallGatherer()
        self._finished: Finished | None = None

    @abstractmethod
    def _content(self, text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
        """A line's part of the answer, under the endpoint's names."""

    def start(self) -> bytes:
        """Nothing: the first text brings the first line."""
        return b""

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta() | ReasoningDelta():
                return self._delta(event)
            case ToolCallStart(_, _, call_id, name):
                return self._called(self._calls.start(call_id, name))
            case ToolCallDelta(_, _, arguments):
                self._calls.add(arguments)
                return b""
            case Finished():
                self._finished = event
                return self._called(self._calls.finish())
            case Completed():
                return self._end(event)
            case Failed():
                return error_body(event.error) + b"\n"
            case Started() | PrefillProgress():
                return b""
            case _:
                assert_never(event)

    def keep_alive(self) -> bytes:
        """A line that says nothing: readers parse every line, so that it must be one of these."""
        return self._line(self._content("", thinking="", calls=[]), done=False)

    def without_answer(self, reason: str) -> bytes:
        """All there is to say where a model was only to be loaded."""
        content = self._content("", thinking="", calls=[])
        return self._line(content, done=True, done_reason=reason)

    def _delta(self, event: TextDelta | ReasoningDelta) -> bytes:
        scores = logprobs(event.tokens) if self._has_logprobs else []
        if not event.text and not scores:
            return b""
        is_thought = isinstance(event, ReasoningDelta)
        text, thinking = ("", event.text) if is_thought else (event.text, "")
        if self._history is not None and text:
            self._said.append(text)
        more: dict[str, Any] = {"logprobs": scores} if scores else {}
        called = self._called(self._calls.finish())
        content = self._content(text, thinking=thinking, calls=[])
        return called + self._line(content, done=False, **more)

    def _called(self, calls: Calls) -> bytes:
        if not calls:
            return b""
        return self._line(self._content("", thinking="", calls=calls), done=False)

    def _end(self, completed: Completed) -> bytes:
        assert self._finished is not None, "an answer that is complete has finished"
        more: dict[str, Any] = {}
        if self._history is not None:
            answer = Message(role="assistant", text="".join(self._said))
            more["context"] = encode_context((*self._history, answer))
        content = self._content("", thinking="", calls=[])
        return self._line(content, **ending(self._finished, completed), **more)

    def _line(self, content: dict[str, Any], **more: Any) -> bytes:
        return to_json({**self._head, **content, **more}) + b"\n"


class ChatLineWriter(LineWriter):
    def _content(self, text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
        return chat_content(text, thinking=thinking, calls=calls)


class GenerateLineWriter(LineWriter):
    def _content(self, text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
        return generate_content(text, thinking=thinking, calls=calls)


def chat_content(text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
    message: ChatMessage = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    return {"message": message}


def generate_content(text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
    """This endpoint takes no tools, so that calls don't come."""
    content: dict[str, Any] = {"response": text}
    if thinking:
        content["thinking"] = thinking
    if calls:
        content["tool_calls"] = calls
    return content
