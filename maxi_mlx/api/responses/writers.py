"""A response to the bytes of its stream: numbered events. Whole, it is `Response.body`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.api.responses.output import WireEvent
from maxi_mlx.api.responses.replay import replayed
from maxi_mlx.api.responses.response import Response
from maxi_mlx.core.events import Event


class ResponseStream:
    """The frames of one stream. Each says its type twice: clients look in either place."""

    def __init__(self, response: Response, *, model: str) -> None:
        """``model`` is the one that answers, as far as that is known by now."""
        response.model = model
        self._response = response
        self._number = 0

    def start(self) -> bytes:
        """Nothing: the first event has what comes before it."""
        return b""

    def event(self, event: Event) -> bytes:
        return b"".join(self.frames(event))

    def frames(self, event: Event) -> list[bytes]:
        written = _numbered(self._response.feed(event), begin=self._number)
        self._number += len(written)
        return written


def replay_frames(response: Mapping[str, Any]) -> list[bytes]:
    """The stream of a response that is kept."""
    return _numbered(replayed(response), begin=0)


def _numbered(events: Iterable[WireEvent], *, begin: int) -> list[bytes]:
    frames = []
    for number, event in enumerate(events, begin):
        event["sequence_number"] = number
        kind = event["type"].encode()
        frames.append(b"event: %b\ndata: %b\n\n" % (kind, to_json(event)))
    return frames
