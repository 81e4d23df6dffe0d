"""What a server says of itself: GET /v1/cache/stats. mlx_lm.server tells of its memory alone."""

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
    peak_bytes: int


class CacheStats(msgspec.Struct, frozen=True, kw_only=True):
    bytes: int = 0


class DiskStats(msgspec.Struct, frozen=True, kw_only=True):
    queued_bytes: int


class PrefixStats(msgspec.Struct, frozen=True, kw_only=True):
    entries: int = 0
    bytes: int = 0
    evictions: int = 0
    disk: DiskStats | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    models: Sequence[ModelStats] = ()
    memory: MemoryStats
    kv_cache: CacheStats = CacheStats()
    prefix_cache: PrefixStats = PrefixStats()

    @property
    def prefill_tokens(self) -> int:
        return sum(model.prefill_tokens for model in self.models)

    @property
    def is_at_work(self) -> bool:
        disk = self.prefix_cache.disk
        is_writing = disk is not None and disk.queued_bytes > 0
        return is_writing or any(model.num_running for model in self.models)


async def settled(server: Running) -> Stats:
    """The figures once nothing runs, all is on disk that will be, and they no longer change."""
    deadline = time.monotonic() + SETTLE_S
    last: Stats | None = None
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline:
            async with session.get(f"{server.url}/cache/stats", raise_for_status=True) as response:
                stats = msgspec.json.decode(await response.read(), type=Stats)
            if stats == last and not stats.is_at_work:
                return stats
            last = stats
            await asyncio.sleep(PAUSE_S)
    raise MeasurementFailed(f"{server.name} does not come to rest: {last}")
