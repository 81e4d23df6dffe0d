"""POST /api/chat, /api/generate, /api/embed and /api/embeddings: Ollama's API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from maxi_mlx.api import ollama
from maxi_mlx.server.body import read_body
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.generation import LARGE_BODY_BYTES
from maxi_mlx.server.keys import ENGINE, FEEDS, RECORD
from maxi_mlx.server.stream import send_stream
from maxi_mlx.server.whole import send_whole

LINES = "application/x-ndjson"

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How one endpoint reads a body and writes an answer."""

    parse: Callable[..., ollama.WritingCall]
    line_writer: type[ollama.LineWriter]
    whole_answer: type[ollama.WholeAnswer]


CHAT = Endpoint(
    parse=ollama.parse_chat,
    line_writer=ollama.ChatLineWriter,
    whole_answer=ollama.ChatAnswer,
)
GENERATE = Endpoint(
    parse=ollama.parse_generate,
    line_writer=ollama.GenerateLineWriter,
    whole_answer=ollama.GenerateAnswer,
)


async def chat(request: web.Request) -> web.StreamResponse:
    return await _write(request, CHAT)


async def generate(request: web.Request) -> web.StreamResponse:
    return await _write(request, GENERATE)


async def _write(request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
    record = request[RECORD]
    call = await parsed(request, endpoint.parse)
    record.observe_request(call.request)
    head: dict[str, Any] = {
        "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "logprobs": call.request.top_logprobs is not None,
        "history": call.history,
    }
    if call.loads:
        return await _load(request, call, writer=partial(endpoint.line_writer, **head))
    events = request.app[ENGINE].generate(call.request, keep_alive_s=call.keep_alive_s)
    async with EventFeed(
        events, asked_model=call.request.model, record=record, among=request.app[FEEDS]
    ) as feed:
        if not call.stream:
            return await send_whole(feed, partial(endpoint.whole_answer, **head))
        writer = partial(endpoint.line_writer, **head)
        keep_alive = writer(model=call.request.model).keep_alive()
        return await send_stream(
            request, feed, writer=writer, keep_alive=keep_alive, content_type=LINES
        )


async def _load(
    request: web.Request, call: ollama.WritingCall, *, writer: Callable[..., ollama.LineWriter]
) -> web.Response:
    """A request without a prompt."""
    asked = call.request
    await _load_or_unload(request, asked.model, call.keep_alive_s)
    body = writer(model=asked.model).without_answer("unload" if call.unloads else "load")
    return web.Response(body=body, content_type="application/json")


async def _load_or_unload(request: web.Request, model: str, keep_alive_s: float | None) -> None:
    engine = request.app[ENGINE]
    if keep_alive_s != 0:
        await engine.load(model, keep_alive_s=keep_alive_s)
    elif model:  # no name stands for all that are loaded
        await engine.unload(model)


async def embed(request: web.Request) -> web.Response:
    return await _embed(request, ollama.parse_embed)


async def embeddings(request: web.Request) -> web.Response:
    return await _embed(request, ollama.parse_embeddings)


async def _embed(request: web.Request, parse: Callable[..., ollama.EmbedCall]) -> web.Response:
    begun_s = time.monotonic()
    record = request[RECORD]
    call = await parsed(request, parse)
    record.observe_request(call.request)
    result = None
    if call.request.inputs:
        embedding = request.app[ENGINE].embed(call.request, keep_alive_s=call.keep_alive_s)
        result = await request.app[FEEDS].waited_for(record, embedding)
        record.model, record.prompt_tokens = result.model, result.prompt_tokens
    elif call.request.model:
        await _load_or_unload(request, call.request.model, call.keep_alive_s)
    total_s = time.monotonic() - begun_s
    # Many numbers take so long to write that others' text would stand still.
    body = await asyncio.to_thread(ollama.embed_body, call, result, total_s=total_s)
    return web.Response(body=body, content_type="application/json")


async def parsed(request: web.Request, parse: Callable[..., Parsed]) -> Parsed:
    body = await read_body(request)
    read = partial(parse, body, request_id=request[RECORD].id)
    # A body of many megabytes takes a second, in which others' text would stand still.
    return read() if len(body) < LARGE_BODY_BYTES else await asyncio.to_thread(read)
