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
    Started,
    TextDelta,
    TokenLogprob,
    Usage,
)


@dataclass(slots=True)
class Choice:
    """One answer so far."""

    texts: list[str] = field(default_factory=list)
    tokens: list[TokenLogprob] = field(default_factory=list)
    reason: FinishReason | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Answer(ABC):
    """Takes the events that a stream would write; `body` comes after `Completed`."""

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
    ) -> None:
        self._head = {
            "id": id,
            "object": self.object_name,
            "created": created,
            "model": model,
            "system_fingerprint": system_fingerprint,
        }
        self._has_logprobs = logprobs
        self._choices = [Choice() for _ in range(num_choices)]
        self._usage: Usage | None = None

    @abstractmethod
    def _choice(self, choice: Choice) -> dict[str, Any]:
        """The text and the log-probabilities, under the endpoint's names."""

    def feed(self, event: Event) -> None:
        """Raises the error of a `Failed`: there is no half of a whole answer."""
        match event:
            case TextDelta():
                choice = self._choices[event.choice]
                choice.texts.append(event.text)
                choice.tokens += event.tokens
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
        if self._usage is None or any(choice.reason is None for choice in self._choices):
            raise EngineFailed("The engine stopped before the answer was complete.")
        choices = [
            {"index": index, **self._choice(choice), "finish_reason": choice.reason}
            for index, choice in enumerate(self._choices)
        ]
        return to_json({**self._head, "choices": choices, "usage": usage_object(self._usage)})
