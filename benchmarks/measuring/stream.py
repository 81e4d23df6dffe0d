"""A client that costs little while it measures: it notes what came when, and reads it afterwards.

The servers under test share this machine with their client, so that whatever it computes during a
run is taken from them. Knows one connection a request, plain HTTP on this machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from measuring.client import Reply
from measuring.failure import MeasurementFailed
from measuring.response import read_response
from measuring.server import Running


class Exchange(asyncio.Protocol):
    """One request on its way. ``num_pieces`` is how often something came."""

    def __init__(self, request: bytes, *, begun_s: float) -> None:
        self._request = request
        self._pieces: list[tuple[float, bytes]] = []
        self._begun_s = begun_s
        self._ended_s = 0.0
        self._fault: Exception | None = None
        self._transport: asyncio.Transport | None = None
        self._is_over = asyncio.Event()
        self._goal = 0
        self._is_there = asyncio.Event()  # so many pieces have come, or the end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._pieces.append((time.perf_counter(), data))
        if len(self._pieces) == self._goal:
            self._is_there.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended_s = time.perf_counter()
        self._fault = exc
        self._is_over.set()
        self._is_there.set()

    @property
    def num_pieces(self) -> int:
        return len(self._pieces)

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def leave(self) -> None:
        """Goes away in the middle of the answer."""
        assert self._transport is not None
        self._transport.abort()

    async def wait_for_pieces(self, number: int) -> None:
        """Or for the end, where that comes sooner."""
        if self.num_pieces < number and not self.is_over:
            self._goal = number
            self._is_there.clear()
            await self._is_there.wait()

    async def reply(self, timeout_s: float) -> Reply:
        """Waits for the end of the answer, and reads it."""
        try:
            await asyncio.wait_for(self._is_over.wait(), timeout_s)
        except TimeoutError:
            self.leave()
            await self._is_over.wait()
            return Reply(begun_s=self._begun_s, ended_s=self._ended_s, error="timeout")
        reply = Reply(begun_s=self._begun_s, ended_s=self._ended_s)
        if self._fault is not None:
            reply.error, reply.detail = "connection", str(self._fault)
        else:
            read_response(self._pieces, reply)
        return reply

    def reply_so_far(self) -> Reply:
        """What an answer that goes on, or was left, has brought."""
        reply = Reply(begun_s=self._begun_s, ended_s=self._ended_s or time.perf_counter())
        read_response(self._pieces, reply)
        return reply


async def begin(server: Running, body: Mapping[str, Any], *, path: str = "completions") -> Exchange:
    request = _request(server, body, path)
    loop = asyncio.get_running_loop()
    begun_s = time.perf_counter()  # the time that it takes to be let in counts
    _, exchange = await loop.create_connection(
        lambda: Exchange(request, begun_s=begun_s), host="127.0.0.1", port=server.port
    )
    return exchange


async def begin_all(server: Running, bodies: Sequence[Mapping[str, Any]]) -> list[Exchange]:
    return await asyncio.gather(*(begin(server, body) for body in bodies))


async def replies_of(
    server: Running, exchanges: Sequence[Exchange], *, timeout_s: float
) -> list[Reply]:
    """Raises where one fails: a round with fewer rows says nothing."""
    replies = [await exchange.reply(timeout_s) for exchange in exchanges]
    errors = {reply.error: reply.detail for reply in replies if reply.error is not None}
    if errors:
        raise MeasurementFailed(f"{server.name} failed: {errors}")
    return replies


async def ask_all(
    server: Running, bodies: Sequence[Mapping[str, Any]], *, timeout_s: float
) -> list[Reply]:
    """All at once."""
    return await replies_of(server, await begin_all(server, bodies), timeout_s=timeout_s)


def completion_body(
    server: Running, prompt: str, *, max_tokens: int, **fields: Any
) -> dict[str, Any]:
    """A streamed raw completion; greedy unless ``fields`` say otherwise."""
    return {
        "model": server.model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }


def _request(server: Running, body: Mapping[str, Any], path: str) -> bytes:
    data = msgspec.json.encode(body)
    head = (
        f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + data
