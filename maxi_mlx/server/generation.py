"""POST /v1/chat/completions and /v1/completions: body in, events out, whole or as a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aiohttp import web

import maxi_mlx
from maxi_mlx.api import openai
from maxi_mlx.server.body import read_body
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.keys import ENGINE, FEEDS, RECORD
from maxi_mlx.server.stream import StreamWriter, send_stream
from maxi_mlx.server.whole import WholeAnswer, send_whole

LARGE_BODY_BYTES = 512 * 1024
FINGERPRINT = f"maxi-mlx-{maxi_mlx.__version__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How one endpoint reads a body and writes an answer."""

    parse: Callable[..., openai.ChatCall | openai.CompletionCall]
    stream_writer: Callable[..., StreamWriter]
    whole_answer: Callable[..., WholeAnswer]
    id_prefix: str


CHAT = Endpoint(
    parse=openai.parse_chat,
    stream_writer=openai.ChatStreamWriter,
    whole_answer=openai.ChatAnswer,
    id_prefix="chatcmpl-",
)
COMPLETION = Endpoint(
    parse=openai.parse_completion,
    stream_writer=openai.CompletionStreamWriter,
    whole_answer=openai.CompletionAnswer,
    id_prefix="cmpl-",
)


async def chat(request: web.Request) -> web.StreamResponse:
    return await _generate(request, CHAT)


async def completion(request: web.Request) -> web.StreamResponse:
    return await _generate(request, COMPLETION)


async def _generate(request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
    record = request[RECORD]
    body = await read_body(request)
    parse = partial(endpoint.parse, body, request_id=record.id)
    # A body of many megabytes takes a second, in which others' text would stand still.
    call = parse() if len(body) < LARGE_BODY_BYTES else await asyncio.to_thread(parse)
    record.observe_request(call.request)
    head = {
        "id": endpoint.id_prefix + record.id.removeprefix("req-"),
        "created": int(time.time()),
        "system_fingerprint": FINGERPRINT,
        "num_choices": call.request.num_choices,
        "logprobs": call.request.top_logprobs is not None,
        "legacy_functions": call.legacy_functions,
    }
    events = request.app[ENGINE].generate(call.request)
    async with EventFeed(
        events, asked_model=call.request.model, record=record, among=request.app[FEEDS]
    ) as feed:
        if not call.stream:
            return await send_whole(feed, partial(endpoint.whole_answer, **head))
        writer = partial(endpoint.stream_writer, **head, include_usage=call.include_usage)
        return await send_stream(request, feed, writer=writer, keep_alive=openai.KEEP_ALIVE)
