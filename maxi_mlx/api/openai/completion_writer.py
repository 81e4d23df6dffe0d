"""Events to a text completion, in chunks or whole."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

from maxi_mlx.api.openai.answer import Answer, Choice
from maxi_mlx.api.openai.answer_schema import TextLogprobs
from maxi_mlx.api.openai.logprobs import CompletionLogprobs
from maxi_mlx.api.openai.stream import StreamWriter
from maxi_mlx.core.events import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart


class CompletionStreamWriter(StreamWriter):
    object_name = "text_completion"
    text_start = b'"text":'
    text_end = b""
    no_text = b'"text":""'

    @cached_property
    def _tokens(self) -> defaultdict[int, CompletionLogprobs]:
        """Choice by choice, as offsets count the characters that went before."""
        return defaultdict(CompletionLogprobs)

    def start(self) -> bytes:
        """Nothing: a text completion has no role to announce."""
        return b""

    def _logprobs(self, delta: TextDelta) -> TextLogprobs:
        return self._tokens[delta.choice].add(delta.tokens)

    def _delta(self, _event: ReasoningDelta | ToolCallStart | ToolCallDelta) -> bytes:
        """Nothing: the engine finds no thoughts or calls in the answer to a raw prompt."""
        return b""


class CompletionAnswer(Answer):
    object_name = "text_completion"

    def _choice(self, choice: Choice) -> dict[str, Any]:
        return {
            "text": choice.text,
            "logprobs": CompletionLogprobs().add(choice.tokens) if self._has_logprobs else None,
        }
