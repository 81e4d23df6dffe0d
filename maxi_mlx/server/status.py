"""``GET /v1/status``: what the server is doing right now, once or as a stream; and the end of a
request before its time.

Made from snapshots; nothing here waits for the engine. No text of a request or an answer is in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from aiohttp import web

import maxi_mlx
from maxi_mlx.api.openai.sse import frame, to_json
from maxi_mlx.core.errors import InvalidRequest, NotFound
from maxi_mlx.engine.status import EngineStatus
from maxi_mlx.server.answer_schema import (
    CancelledRequest,
    RequestPhase,
    RequestUnderWay,
    Status,
    StatusModel,
)
from maxi_mlx.server.health import json_response
from maxi_mlx.server.keys import ENGINE, FEEDS, RESPONSE_RUNS, STARTED_AT, WATCHERS
from maxi_mlx.server.record import RequestRecord
from maxi_mlx.server.stream import EVENT_STREAM, HEADERS

BETWEEN_SNAPSHOTS_S = 1.0
# A reader that takes nothing for so long (a laptop that sleeps) is left; it can come again.
STANDSTILL_S = 10.0


async def status(request: web.Request) -> web.Response:
    return json_response(snapshot(request.app))


async def status_events(request: web.Request) -> web.StreamResponse:
    """A snapshot a second, for as long as there is a reader."""
    watchers = request.app[WATCHERS]
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": EVENT_STREAM})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    with watchers.one():
        while True:
            has_ended = watchers.have_ended
            try:
                async with asyncio.timeout(STANDSTILL_S):
                    await response.write(frame(to_json(snapshot(request.app))))
            except TimeoutError:
                if request.transport is not None:
                    request.transport.abort()
                return response
            if has_ended:
                break
            await watchers.pause(BETWEEN_SNAPSHOTS_S)
    await response.write_eof()
    return response


async def cancel_request(request: web.Request) -> web.Response:
    """Its client gets an error that says so."""
    id = request.match_info["id"]
    feed = request.app[FEEDS].get(id)
    if feed is None:
        raise NotFound(f"No request {id[:80]!r} is under way: it has ended, or never was.")
    run = request.app[RESPONSE_RUNS].get("resp_" + id.removeprefix("req-"))
    if run is not None:
        await run.cancel()  # it has a state of its own for this
    else:
        feed.end(InvalidRequest("The request was cancelled at the server.", code="cancelled"))
    answer: CancelledRequest = {"id": id, "cancelled": True}
    return json_response(answer)


def snapshot(app: web.Application) -> Status:
    engine = app[ENGINE].status()
    feeds = app[FEEDS]
    return {
        "version": maxi_mlx.__version__,
        "state": engine.state,
        "fault": engine.fault,
        "uptime_s": round(time.monotonic() - app[STARTED_AT], 3),
        "num_running": engine.num_running,
        "num_waiting": engine.num_waiting,
        "tokens_per_second": round(feeds.tokens_per_second(), 1),
        "completion_tokens": feeds.num_tokens,
        "memory": engine.memory,
        "weight_bytes": sum(model.weight_bytes for model in engine.loaded),
        "kv_cache_bytes": engine.kv_cache_bytes,
        "prefix_cache": {
            "bytes": engine.prefixes.num_bytes,
            "limit_bytes": engine.prefix_limit_bytes,
            "disk_bytes": engine.disk.num_bytes if engine.disk is not None else None,
            "disk_limit_bytes": engine.disk.limit_bytes if engine.disk is not None else None,
            "hit_rate_last_hour": engine.prefixes.hit_rate,
            "tokens_saved": engine.prefixes.num_tokens_saved,
        },
        "models": list(_models(engine)),
        "requests": [_under_way(feed.record) for feed in feeds],
    }


def _models(engine: EngineStatus) -> Iterator[StatusModel]:
    for model in engine.loaded:
        yield {
            "id": model.id,
            "state": model.state,
            "weight_bytes": model.weight_bytes,
            "kv_cache_bytes": model.kv_cache_bytes,
            "num_running": model.num_running,
            "expires_in_s": model.expires_in_s,
            "is_pinned": model.is_pinned,
        }


def _under_way(record: RequestRecord) -> RequestUnderWay:
    now_s = time.monotonic()
    rate = None
    if record.first_token_at is not None and now_s > record.first_token_at:
        rate = round((record.completion_tokens or 0) / (now_s - record.first_token_at), 1)
    return {
        "id": record.id,
        "api": record.protocol,
        "path": record.path,
        "model": record.model or record.asked_model,
        "phase": _phase(record),
        "elapsed_s": round(now_s - record.started_at, 3),
        "prompt_tokens": record.prompt_tokens,
        "read_tokens": record.read_tokens,
        "completion_tokens": record.completion_tokens or 0,
        "tokens_per_second": rate,
    }


def _phase(record: RequestRecord) -> RequestPhase:
    if record.first_token_at is not None:
        return "writing"
    if record.read_tokens is not None:
        return "reading"
    return "working" if record.audio_s is not None else "waiting"
