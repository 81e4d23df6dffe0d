"""Sends the events of a response's log as a stream, from any place in it."""

from __future__ import annotations

from aiohttp import web

from maxi_mlx.api import openai
from maxi_mlx.server.keys import KEEP_ALIVE_S
from maxi_mlx.server.response_log import EventLog
from maxi_mlx.server.stream import DOOR_WAIT_S, EVENT_STREAM, HEADERS


async def send_log(request: web.Request, log: EventLog, *, begin: int) -> web.StreamResponse:
    """The events from number ``begin`` on, those that are still to come included."""
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": EVENT_STREAM})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    place, timeout_s = begin, DOOR_WAIT_S
    while not log.is_read_up_to(place):
        frames = await log.since(place, timeout_s=timeout_s)
        place += len(frames)
        await response.write(b"".join(frames) or openai.KEEP_ALIVE)
        timeout_s = request.app[KEEP_ALIVE_S]
    await response.write_eof()
    return response
