"""What our server says of itself: GET /v1/cache/stats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import aiohttp
import msgspec

from measuring.failure import MeasurementFailed
from measuring.server import Running

SETTLE_S = 30.0
# The server's figures are up to a quarter of a second old.
PAUSE_S = 0.4


class ModelStats(msgspec.Struct, frozen=True, kw_only=True):
    num_running: int
    prefill_tokens: int


class MemoryStats(msgspec.Struct, frozen=True, kw_only=True):
    active_bytes: int


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    bytes: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    models: Sequence[ModelStats]
    memory: MemoryStats
    kv_cache: CacheStats

    @property
    def prefill_tokens(self) -> int:
        return sum(model.prefill_tokens for model in self.models)


async def settled(server: Running) -> Stats:
    """The figures once nothing runs and they no longer change."""
    deadline = time.monotonic() + SETTLE_S
    last: Stats | None = None
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline:
            async with session.get(f"{server.url}/cache/stats", raise_for_status=True) as response:
                stats = msgspec.json.decode(await response.read(), type=Stats)
            if stats == last and not any(model.num_running for model in stats.models):
                return stats
            last = stats
            await asyncio.sleep(PAUSE_S)
    raise MeasurementFailed(f"{server.name} does not come to rest: {last}")
