"""POST /v1/messages and /v1/messages/count_tokens: Anthropic's API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from maxi_mlx.api import anthropic
from maxi_mlx.server.body import read_body
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.generation import LARGE_BODY_BYTES
from maxi_mlx.server.keys import ENGINE, FEEDS, RECORD
from maxi_mlx.server.stream import send_stream
from maxi_mlx.server.whole import send_whole

Parsed = TypeVar("Parsed")


async def create_message(request: web.Request) -> web.StreamResponse:
    record = request[RECORD]
    call = await _parsed(request, anthropic.parse_message)
    record.observe_request(call.request)
    head: dict[str, Any] = {
        "id": "msg_" + record.id.removeprefix("req-"),
        "max_tokens": call.max_tokens,
        "shows_thoughts": call.shows_thoughts,
    }
    events = request.app[ENGINE].generate(call.request)
    async with EventFeed(
        events, asked_model=call.request.model, record=record, among=request.app[FEEDS]
    ) as feed:
        if not call.stream:
            return await send_whole(feed, partial(anthropic.MessageAnswer, **head))
        writer = partial(anthropic.MessageStreamWriter, **head, request_id=record.id)
        return await send_stream(request, feed, writer=writer, keep_alive=anthropic.PING)


async def count_tokens(request: web.Request) -> web.Response:
    record = request[RECORD]
    asked = await _parsed(request, anthropic.parse_count)
    record.observe_request(asked)
    record.counted_tokens = await request.app[ENGINE].count_tokens(asked)
    body = msgspec.json.encode({"input_tokens": record.counted_tokens})
    return web.Response(body=body, content_type="application/json")


async def _parsed(request: web.Request, parse: Callable[..., Parsed]) -> Parsed:
    body = await read_body(request)
    read = partial(parse, body, request_id=request[RECORD].id)
    # A body of many megabytes takes a second, in which others' text would stand still.
    return read() if len(body) < LARGE_BODY_BYTES else await asyncio.to_thread(read)
