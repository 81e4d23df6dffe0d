"""Events to an answer in one piece: the one object that a stream's lines add up to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, assert_never

from maxi_mlx.api.ollama.context import encode_context
from maxi_mlx.api.ollama.pieces import CallGatherer, ending, logprobs
from maxi_mlx.api.ollama.stream import Calls, chat_content, generate_content
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
    TokenLogprob,
    ToolCallDelta,
    ToolCallStart,
)
from maxi_mlx.core.request import Message


class WholeAnswer(ABC):
    """Takes the events that a stream would write; `body` comes after `Completed`."""

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
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._tokens: list[TokenLogprob] = []
        self._calls: Calls = []
        self._gatherer = CallGatherer()
        self._finished: Finished | None = None
        self._completed: Completed | None = None

    @abstractmethod
    def _content(self, text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
        """The answer, under the endpoint's names."""

    def feed(self, event: Event) -> None:
        """Raises the error of a `Failed`: there is no half of a whole answer."""
        match event:
            case TextDelta(_, text, tokens):
                self._text.append(text)
                self._tokens += tokens
            case ReasoningDelta(_, text, tokens):
                self._thinking.append(text)
                self._tokens += tokens
            case ToolCallStart(_, _, call_id, name):
                self._calls += self._gatherer.start(call_id, name)
            case ToolCallDelta(_, _, arguments):
                self._gatherer.add(arguments)
            case Finished():
                self._finished = event
                self._calls += self._gatherer.finish()
            case Completed():
                self._completed = event
            case Failed():
                raise event.error
            case Started() | PrefillProgress():
                pass
            case _:
                assert_never(event)

    def body(self) -> bytes:
        if self._completed is None or self._finished is None:
            raise EngineFailed("The engine stopped before the answer was complete.")
        text = "".join(self._text)
        more: dict[str, Any] = {}
        if self._history is not None:
            answer = Message(role="assistant", text=text)
            more["context"] = encode_context((*self._history, answer))
        if self._has_logprobs:
            more["logprobs"] = logprobs(self._tokens)
        content = self._content(text, thinking="".join(self._thinking), calls=self._calls)
        end = ending(self._finished, self._completed)
        return to_json({**self._head, **content, **end, **more})


class ChatAnswer(WholeAnswer):
    def _content(self, text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
        return chat_content(text, thinking=thinking, calls=calls)


class GenerateAnswer(WholeAnswer):
    def _content(self, text: str, *, thinking: str, calls: Calls) -> dict[str, Any]:
        return generate_content(text, thinking=thinking, calls=calls)
