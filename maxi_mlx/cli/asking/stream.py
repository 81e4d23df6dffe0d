"""The bytes of a streamed chat completion to pieces of an answer, however they are cut.

A machine: knows no socket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from maxi_mlx.core.errors import NoAnswer


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class End:
    """``model`` is the one that answered; ``usage`` is as the server sent it."""

    model: str
    finish_reason: str
    usage: dict[str, Any]


Piece = Text | Thought | End


class StreamReader:
    """Gives an `End` as the last piece; raises `NoAnswer` for an error in the stream."""

    def __init__(self) -> None:
        self._rest = b""
        self._model = ""
        self._finish_reason = ""
        self._usage: dict[str, Any] = {}

    def feed(self, data: bytes) -> Iterator[Piece]:
        *frames, self._rest = (self._rest + data).split(b"\n\n")
        for frame in frames:
            if not frame.startswith(b"data:"):
                continue  # a comment, which keeps the connection alive
            body = frame.removeprefix(b"data:").strip()
            if body == b"[DONE]":
                yield End(self._model, self._finish_reason, self._usage)
            else:
                yield from self._chunk(json.loads(body))

    def _chunk(self, chunk: Any) -> Iterator[Piece]:
        if error := chunk.get("error"):
            raise NoAnswer(str(error["message"]), code=error.get("code"))
        self._model = chunk.get("model") or self._model
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk["choices"]:
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            delta = choice["delta"]
            if thought := delta.get("reasoning_content"):
                yield Thought(thought)
            if text := delta.get("content"):
                yield Text(text)
