"""Events to an answer in one piece: what the two endpoints' answers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, assert_never

from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.api.openai.usage import usage_object
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    FinishReason,
    PrefillProgress,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)

_HALF = "The engine stopped before the answer was complete."


@dataclass(slots=True)
class Call:
    """A tool call so far."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class Choice:
    """One answer so far."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    tokens: list[TokenLogprob] = field(default_factory=list)
    reason: FinishReason | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts)


class Answer(ABC):
    """Takes the events that a stream would write; `body` comes after `Completed`.
    ``legacy_functions`` as in the stream."""

    object_name: ClassVar[str]

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        system_fingerprint: str | None = None,
        num_choices: int = 1,
        logprobs: bool = False,
        legacy_functions: bool = False,
    ) -> None:
        self._head = {
            "id": id,
            "object": self.object_name,
            "created": created,
            "model": model,
            "system_fingerprint": system_fingerprint,
        }
        self._has_logprobs = logprobs
        self._is_legacy = legacy_functions
        self._choices = [Choice() for _ in range(num_choices)]
        self._usage: Usage | None = None

    @abstractmethod
    def _choice(self, choice: Choice) -> dict[str, Any]:
        """The text and what came with it, under the endpoint's names."""

    def feed(self, event: Event) -> None:
        """Raises the error of a `Failed`: there is no half of a whole answer."""
        match event:
            case TextDelta():
                choice = self._choices[event.choice]
                choice.texts.append(event.text)
                choice.tokens += event.tokens
            case ReasoningDelta():
                self._choices[event.choice].thoughts.append(event.text)
            case ToolCallStart():
                self._choices[event.choice].calls.append(Call(event.id, event.name))
            case ToolCallDelta():
                self._choices[event.choice].calls[event.index].pieces.append(event.arguments)
            case Finished():
                self._choices[event.choice].reason = event.reason
            case Completed():
                self._usage = event.usage
            case Failed():
                raise event.error
            case Started() | PrefillProgress():
                pass
            case _:
                assert_never(event)

    def body(self) -> bytes:
        if (usage := self._usage) is None:
            raise EngineFailed(_HALF)
        choices = []
        for index, choice in enumerate(self._choices):
            if choice.reason is None:
                raise EngineFailed(_HALF)
            word = finish_word(choice.reason, is_legacy=self._is_legacy)
            choices.append({"index": index, **self._choice(choice), "finish_reason": word})
        return to_json({**self._head, "choices": choices, "usage": usage_object(usage)})


def finish_word(reason: FinishReason, *, is_legacy: bool) -> str:
    """The reason as the wire has it; tools asked for in the older form have an older word."""
    return "function_call" if is_legacy and reason == "tool_calls" else reason
