"""A response to the bytes of its stream: numbered events. Whole, it is `Response.body`."""

from __future__ import annotations

from maxi_mlx.api.openai.sse import to_json
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
        frames = []
        for wire in self._response.feed(event):
            kind = wire["type"]
            wire["sequence_number"] = self._number
            self._number += 1
            frames.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), to_json(wire)))
        return b"".join(frames)
