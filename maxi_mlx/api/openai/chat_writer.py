"""Events to a chat completion, in chunks or whole."""

from __future__ import annotations

from typing import Any

from maxi_mlx.api.openai.answer import Answer, Choice
from maxi_mlx.api.openai.logprobs import chat_logprobs
from maxi_mlx.api.openai.stream import StreamWriter
from maxi_mlx.core.events import TextDelta


class ChatStreamWriter(StreamWriter):
    object_name = "chat.completion.chunk"
    text_start = b'"delta":{"content":'
    text_end = b"}"
    no_text = b'"delta":{}'

    def start(self) -> bytes:
        """The first chunk of every choice, which names the role."""
        role = b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}'
        return b"".join(head + role + b"\n\n" for head in self._heads)

    def _logprobs(self, delta: TextDelta) -> dict[str, Any]:
        return chat_logprobs(delta.tokens)


class ChatAnswer(Answer):
    object_name = "chat.completion"

    def _choice(self, choice: Choice) -> dict[str, Any]:
        return {
            # OpenAI's schema requires the keys that are null here, and some clients check.
            "message": {
                "role": "assistant",
                "content": choice.text,
                "refusal": None,
                "annotations": [],
            },
            "logprobs": chat_logprobs(choice.tokens) if self._has_logprobs else None,
        }
