"""POST /v1/embeddings, /v1/rerank and /v1/score: a body in, numbers out, whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from aiohttp import web

from maxi_mlx.api import jina, openai
from maxi_mlx.server.body import read_body
from maxi_mlx.server.generation import LARGE_BODY_BYTES
from maxi_mlx.server.keys import ENGINE, FEEDS, RECORD

Parsed = TypeVar("Parsed")

# More take so long to write that others' text would stand still.
_MANY_NUMBERS = 50_000


async def embed(request: web.Request) -> web.Response:
    record = request[RECORD]
    call = await _parsed(request, openai.parse_embedding)
    record.observe_request(call.request)
    result = await request.app[FEEDS].waited_for(record, request.app[ENGINE].embed(call.request))
    record.model, record.prompt_tokens = result.model, result.prompt_tokens
    write = partial(openai.embedding_body, result, call.encoding_format)
    body = write() if result.rows.size < _MANY_NUMBERS else await asyncio.to_thread(write)
    return web.Response(body=body, content_type="application/json")


async def rerank(request: web.Request) -> web.Response:
    record = request[RECORD]
    call = await _parsed(request, jina.parse_rerank)
    record.observe_request(call.request)
    result = await request.app[FEEDS].waited_for(record, request.app[ENGINE].score(call.request))
    record.model, record.prompt_tokens = result.model, result.prompt_tokens
    body = jina.rerank_body(result, call, id="rerank-" + record.id.removeprefix("req-"))
    return web.Response(body=body, content_type="application/json")


async def score(request: web.Request) -> web.Response:
    record = request[RECORD]
    asked = await _parsed(request, jina.parse_score)
    record.observe_request(asked)
    result = await request.app[FEEDS].waited_for(record, request.app[ENGINE].score(asked))
    record.model, record.prompt_tokens = result.model, result.prompt_tokens
    body = jina.score_body(
        result, id="score-" + record.id.removeprefix("req-"), created=int(time.time())
    )
    return web.Response(body=body, content_type="application/json")


async def _parsed(request: web.Request, parse: Callable[..., Parsed]) -> Parsed:
    body = await read_body(request)
    read = partial(parse, body, request_id=request[RECORD].id)
    return read() if len(body) < LARGE_BODY_BYTES else await asyncio.to_thread(read)
