"""Events to the chunks of a stream: what the two endpoints' streams share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, assert_never

from maxi_mlx.api.openai.answer import finish_word
from maxi_mlx.api.openai.answer_schema import ChatLogprobs, TextLogprobs
from maxi_mlx.api.openai.errors import error_body
from maxi_mlx.api.openai.sse import DONE, frame, to_json
from maxi_mlx.api.openai.usage import usage_object
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

_GOING_ON = b',"logprobs":null,"finish_reason":null}]}\n\n'


class StreamWriter(ABC):
    """A chunk is a fixed head, an escaped middle and a fixed tail:

    data: {"id":…,"choices":[{"index":0,  "delta":{"content":"Hi"}  ,"logprobs":null,…}]}
    └────────────── head ─────────────┘                             └────── tail ───────┘

    Serves one stream: it may keep count of what it wrote. With ``legacy_functions`` the client
    asked for tools in the older form, which knows one call an answer.
    """

    object_name: ClassVar[str]
    text_start: ClassVar[bytes]  # before the escaped text
    text_end: ClassVar[bytes]
    no_text: ClassVar[bytes]  # the middle of a chunk that only finishes

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        system_fingerprint: str | None = None,
        num_choices: int = 1,
        logprobs: bool = False,
        include_usage: bool = False,
        legacy_functions: bool = False,
    ) -> None:
        head = to_json(
            {
                "id": id,
                "object": self.object_name,
                "created": created,
                "model": model,
                "system_fingerprint": system_fingerprint,
            }
        )
        self._head = b"data: " + head[:-1] + b',"choices":['
        self._heads = [self._head + b'{"index":%d,' % choice for choice in range(num_choices)]
        self._has_logprobs = logprobs
        self._include_usage = include_usage
        self._is_legacy = legacy_functions

    @abstractmethod
    def start(self) -> bytes:
        """What comes before any event."""

    @abstractmethod
    def _logprobs(self, delta: TextDelta) -> ChatLogprobs | TextLogprobs:
        """The log-probabilities of a delta's tokens."""

    @abstractmethod
    def _delta(self, event: ReasoningDelta | ToolCallStart | ToolCallDelta) -> bytes:
        """The middle of a chunk for what only a chat has; empty: no chunk."""

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._text(event)
            case ReasoningDelta() | ToolCallStart() | ToolCallDelta():
                middle = self._delta(event)
                return self._heads[event.choice] + middle + _GOING_ON if middle else b""
            case Finished():
                word = finish_word(event.reason, is_legacy=self._is_legacy).encode()
                tail = b',"logprobs":null,"finish_reason":"%b"}]}\n\n' % word
                return self._heads[event.choice] + self.no_text + tail
            case Completed():
                if not self._include_usage:
                    return DONE
                usage = to_json(usage_object(event.usage))
                return self._head + b'],"usage":' + usage + b"}\n\n" + DONE
            case Failed():
                # No [DONE] after it: nothing was done, and clients stop at the error.
                return frame(error_body(event.error))
            case Started() | PrefillProgress():
                return b""
            case _:
                assert_never(event)

    def _text(self, delta: TextDelta) -> bytes:
        logprobs = b"null"
        if self._has_logprobs and delta.tokens:
            logprobs = to_json(self._logprobs(delta))
        elif not delta.text:
            return b""
        return b"".join(
            (
                self._heads[delta.choice],
                self.text_start,
                to_json(delta.text),
                self.text_end,
                b',"logprobs":',
                logprobs,
                b',"finish_reason":null}]}\n\n',
            )
        )
