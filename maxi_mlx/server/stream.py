"""Sends an answer as server-sent events, or as lines, while it is being generated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from aiohttp import web

from maxi_mlx.core.events import Failed, Started
from maxi_mlx.server.feed import Feed
from maxi_mlx.server.keys import KEEP_ALIVE_S

# What is wrong at the door shows at once, and until then an error can still be a proper status.
# After it the stream begins, come what may: clients give up on a server that stays silent.
DOOR_WAIT_S = 0.8
DEFAULT_KEEP_ALIVE_S = 10.0

EVENT_STREAM = "text/event-stream; charset=utf-8"
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would collect the answer and hand it out whole
}


class StreamWriter(Protocol):
    """Turns events into the bytes of one wire format."""

    def start(self) -> bytes: ...

    def event(self, event: Any) -> bytes: ...


class EventText:
    """The bytes for a request's events; a machine around the writer, which can't be made before
    it is known which model answers."""

    def __init__(self, writer: Callable[..., StreamWriter]) -> None:
        self._make_writer = writer
        self._writer: StreamWriter | None = None

    def of(self, events: Sequence[Any], *, model: str) -> bytes:
        if not events:
            return b""
        pieces = []
        if self._writer is None:
            self._writer = self._make_writer(model=model)
            if isinstance(events[0], Started):
                pieces.append(self._writer.start())
        pieces += [self._writer.event(event) for event in events]
        return b"".join(pieces)


async def send_stream(
    request: web.Request,
    feed: Feed[Any],
    *,
    writer: Callable[..., StreamWriter],
    keep_alive: bytes,
    content_type: str = EVENT_STREAM,
    before_end: Callable[[], Awaitable[None]] | None = None,
) -> web.StreamResponse:
    """Raises what went wrong before the stream has begun; later errors are events in it.

    ``before_end`` is done once all is written but the last bytes, of which a client may make use
    at once.
    """
    events = await feed.take(timeout_s=DOOR_WAIT_S)
    for event in events:
        if isinstance(event, Failed):
            raise event.error
    text = EventText(writer)
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": content_type})
    await response.prepare(request)
    data = text.of(events, model=feed.model) or keep_alive
    if feed.has_ended and before_end is not None:
        await before_end()
    await response.write(data)
    loop = asyncio.get_running_loop()
    silence_s = request.app[KEEP_ALIVE_S]
    due_at = loop.time() + silence_s
    while not feed.has_ended:
        events = await feed.take(timeout_s=max(0.0, due_at - loop.time()))
        data = text.of(events, model=feed.model)
        if not data and loop.time() >= due_at:
            data = keep_alive
        if feed.has_ended:
            if before_end is not None:
                await before_end()
            # In one packet with the end: a client may close at the last event it reads.
            await response.write_eof(data)
        elif data:
            # One write for all that has come. It waits while the client's side is full.
            await response.write(data)
            due_at = loop.time() + silence_s
    return response
