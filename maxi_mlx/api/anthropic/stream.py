"""Events to the stream of a message: blocks that open, grow and close, one after the other."""

from __future__ import annotations

from typing import assert_never

from maxi_mlx.api.anthropic.answer_schema import ContentBlock, MessageBody
from maxi_mlx.api.anthropic.errors import error_body
from maxi_mlx.api.anthropic.signature import Thought
from maxi_mlx.api.anthropic.sse import PING, frame, raw_frame
from maxi_mlx.api.anthropic.usage import stop_fields, usage_object
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
    Usage,
)


class MessageStreamWriter:
    """A delta is a fixed head, an escaped middle and a fixed tail:

    data: {"type":…,"index":0,"delta":{"type":"text_delta","text":  "Hi"  }}
    └────────────────────────── head ───────────────────────────┘         └ tail

    Serves one stream, with one answer in it.
    """

    def __init__(
        self, *, id: str, request_id: str, model: str, max_tokens: int, shows_thoughts: bool
    ) -> None:
        self._id = id
        self._request_id = request_id
        self._model = model
        self._max_tokens = max_tokens
        self._shows_thoughts = shows_thoughts
        self._num_blocks = 0
        self._open: str | None = None  # the open block's type
        self._head = b""  # of the open block's deltas
        self._thought = Thought(is_shown=shows_thoughts)
        self._finished: Finished | None = None

    def start(self) -> bytes:
        """Nothing: the first event brings the count that the message's head has."""
        return b""

    def event(self, event: Event) -> bytes:
        match event:
            case Started():
                return self._message_start(event.prompt_tokens) + PING
            case TextDelta() | ReasoningDelta() | ToolCallStart() | ToolCallDelta():
                return self._content(event) if self._max_tokens else b""
            case Finished():
                self._finished = event
                return self._close()
            case Completed():
                return self._end(event.usage)
            case Failed():
                return raw_frame("error", error_body(event.error, request_id=self._request_id))
            case PrefillProgress():
                return b""
            case _:
                assert_never(event)

    def _content(self, event: TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta) -> bytes:
        match event:
            case TextDelta(_, text):
                return self._say(text) if text else b""
            case ReasoningDelta(_, text):
                return self._think(text) if text else b""
            case ToolCallStart(_, _, call_id, name):
                block: ContentBlock = {
                    "type": "tool_use",
                    "id": call_id,
                    "name": name,
                    "input": {},
                }
                return self._close() + self._opened(block, "input_json_delta", "partial_json")
            case ToolCallDelta(_, _, arguments):
                return self._head + to_json(arguments) + b"}}\n\n" if arguments else b""
            case _:
                assert_never(event)

    def _think(self, text: str) -> bytes:
        opened = b""
        if self._open != "thinking":
            self._thought = Thought(is_shown=self._shows_thoughts)
            block: ContentBlock = {"type": "thinking", "thinking": "", "signature": ""}
            opened = self._close() + self._opened(block, "thinking_delta", "thinking")
        self._thought.add(text)
        if not self._shows_thoughts:
            return opened
        return opened + self._head + to_json(text) + b"}}\n\n"

    def _say(self, text: str) -> bytes:
        opened = b""
        if self._open != "text":
            opened = self._close() + self._opened(
                {"type": "text", "text": ""}, "text_delta", "text"
            )
        return opened + self._head + to_json(text) + b"}}\n\n"

    def _opened(self, block: ContentBlock, delta: str, name: str) -> bytes:
        index = self._num_blocks
        self._num_blocks += 1
        self._open = block["type"]
        self._head = (
            b"event: content_block_delta\ndata: "
            b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
            % (index, delta.encode(), name.encode())
        )
        return frame({"type": "content_block_start", "index": index, "content_block": block})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        index, signed = self._num_blocks - 1, b""
        if self._open == "thinking":
            delta = {"type": "signature_delta", "signature": self._thought.signature}
            signed = frame({"type": "content_block_delta", "index": index, "delta": delta})
        self._open = None
        return signed + frame({"type": "content_block_stop", "index": index})

    def _message_start(self, prompt_tokens: int) -> bytes:
        message: MessageBody = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            # What the cache had is known once the prompt is being read: the end tells it.
            "usage": usage_object(Usage(prompt_tokens, 0)),
        }
        return frame({"type": "message_start", "message": message})

    def _end(self, usage: Usage) -> bytes:
        assert self._finished is not None, "an answer that is complete has finished"
        written = usage_object(usage)
        del written["service_tier"]
        if not self._max_tokens:
            written["output_tokens"] = 0
        delta = {
            "type": "message_delta",
            "delta": stop_fields(self._finished, max_tokens=self._max_tokens),
            "usage": written,
        }
        return frame(delta) + frame({"type": "message_stop"})
