"""The measuring client against a small server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from measuring.failure import MeasurementFailed
from measuring.server import Running
from measuring.stats import settled
from measuring.stream import ask_all, begin, completion_body

from tests.unit.benchmarks.test_response import EVENTS

PAUSE_S = 0.1

Serve = Callable[..., Awaitable[Running]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """``await serve(handler)`` answers POST /v1/completions and GET /v1/cache/stats by it."""
    servers = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Running:
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        app.router.add_get("/v1/cache/stats", handler)
        server = TestServer(app)
        servers.append(server)
        await server.start_server()
        assert server.port is not None
        return Running(name="small", port=server.port, model="m", pid=0)

    yield start
    for server in servers:
        await server.close()


async def answer(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in EVENTS:
        await response.write(event)
        await asyncio.sleep(PAUSE_S)
    return response


async def test_all_at_once(serve: Serve) -> None:
    bodies: list[dict[str, Any]] = []
    both = asyncio.Barrier(2)

    async def keeps(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        await both.wait()
        return await answer(request)

    server = await serve(keeps)
    asked = [completion_body(server, text, max_tokens=2, seed=7) for text in ("x", "y")]
    replies = await ask_all(server, asked, timeout_s=20)
    assert sorted(bodies, key=lambda body: body["prompt"]) == asked
    assert bodies[0] == {
        "model": "m",
        "prompt": bodies[0]["prompt"],
        "max_tokens": 2,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 7,
    }
    for reply in replies:
        first_s, second_s = reply.chunk_times_s
        assert reply.begun_s < first_s < second_s < reply.ended_s
        assert second_s - first_s >= PAUSE_S / 2
        assert reply.completion_tokens == 2


async def test_one_that_fails_stops_the_measurement(serve: Serve) -> None:
    async def refuses(request: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text="broken")

    server = await serve(refuses)
    body = completion_body(server, "x", max_tokens=2)
    with pytest.raises(MeasurementFailed, match=r"small failed: .*HTTP 500.*broken"):
        await ask_all(server, [body], timeout_s=20)


async def test_an_answer_that_takes_too_long(serve: Serve) -> None:
    server = await serve(answer)
    exchange = await begin(server, completion_body(server, "x", max_tokens=2))
    assert (await exchange.reply(PAUSE_S / 2)).error == "timeout"


async def test_a_stream_can_be_watched_and_left(serve: Serve) -> None:
    left = asyncio.Event()

    async def goes_on(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                await response.write(EVENTS[1])
                await asyncio.sleep(0.001)
        finally:
            left.set()

    server = await serve(goes_on)
    exchange = await begin(server, completion_body(server, "x", max_tokens=2))
    await exchange.wait_for_pieces(5)
    assert exchange.num_pieces >= 5
    assert not exchange.is_over
    exchange.leave()
    await asyncio.wait_for(left.wait(), 30)
    assert len(exchange.reply_so_far().chunk_times_s) >= 3


async def test_waiting_for_pieces_ends_with_the_answer(serve: Serve) -> None:
    server = await serve(answer)
    exchange = await begin(server, completion_body(server, "x", max_tokens=2))
    await asyncio.wait_for(exchange.wait_for_pieces(1000), 30)
    assert exchange.is_over


async def test_figures_are_read_once_they_rest(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("measuring.stats.PAUSE_S", 0.001)
    busy, writing = [(1, 50, 7), (1, 50, 7)], [(0, 90, 7), (0, 90, 7), (0, 90, 3)]
    moments = iter([*busy, *writing, (0, 90, 0), (0, 100, 0), (0, 100, 0), (0, 999, 0)])

    async def stats(request: web.Request) -> web.StreamResponse:
        num_running, prefill_tokens, queued_bytes = next(moments)
        model = {"num_running": num_running, "prefill_tokens": prefill_tokens}
        memory = {"active_bytes": 5, "cache_bytes": 6, "peak_bytes": 7}
        prefix_cache = {"bytes": 1, "disk": {"queued_bytes": queued_bytes}}
        figures = {"models": [model], "memory": memory, "prefix_cache": prefix_cache}
        return web.json_response({**figures, "kv_cache": {"bytes": 0}})

    assert (await settled(await serve(stats))).prefill_tokens == 100


async def test_figures_of_memory_alone(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("measuring.stats.PAUSE_S", 0.001)

    async def stats(request: web.Request) -> web.StreamResponse:
        return web.json_response({"memory": {"active_bytes": 5, "peak_bytes": 7}})

    figures = await settled(await serve(stats))
    assert (figures.memory.peak_bytes, figures.prefill_tokens) == (7, 0)
