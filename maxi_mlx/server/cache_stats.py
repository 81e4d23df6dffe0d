"""``GET /v1/cache/stats``: what the caches hold, what they saved, and the device's memory.

Made from a snapshot, at most a second old; nothing here waits for the engine.
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from maxi_mlx.engine.status import EngineStatus, LoadedModel
from maxi_mlx.kv_cache.counts import CacheStats
from maxi_mlx.kv_cache.disk.tier import DiskStats
from maxi_mlx.server.health import json_response
from maxi_mlx.server.keys import ENGINE


async def cache_stats(request: web.Request) -> web.Response:
    return json_response(described(request.app[ENGINE].status()))


def described(status: EngineStatus) -> dict[str, Any]:
    return {
        "kv_cache": {"bytes": status.kv_cache_bytes},
        "prefix_cache": {
            **_prefixes(status.prefixes),
            "limit_bytes": status.prefix_limit_bytes,
            "disk": _disk(status.disk),
        },
        "models": [_model(model) for model in status.loaded],
        "memory": status.memory,
    }


def _model(model: LoadedModel) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(model)
    fields["prefix_cache"] = _prefixes(model.prefixes)
    fields["prefix_cache"]["disk"] = {"files": model.disk_files, "bytes": model.disk_bytes}
    for name in ("prefixes", "disk_files", "disk_bytes"):
        del fields[name]
    return fields


def _prefixes(stats: CacheStats) -> dict[str, Any]:
    return {
        "entries": stats.num_pieces,
        "conversations": stats.num_conversations,
        "tokens": stats.num_tokens,
        "bytes": stats.num_bytes,
        "bytes_saved_by_sharing": stats.shared_bytes,
        "hits": stats.num_hits,
        "partial_hits": stats.num_partial_hits,
        "misses": stats.num_misses,
        "evictions": stats.num_evictions,
        "restores": stats.num_restores,
        "tokens_saved": stats.num_tokens_saved,
        "hit_rate_last_hour": stats.hit_rate,
    }


def _disk(stats: DiskStats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return {
        "files": stats.num_files,
        "bytes": stats.num_bytes,
        "limit_bytes": stats.limit_bytes,
        "queued_bytes": stats.num_queued_bytes,
        "written": stats.num_written,
        "read": stats.num_read,
        "dropped": stats.num_dropped,
        "evicted": stats.num_evicted,
        "skipped": stats.num_skipped,
        "fault": stats.fault,
    }
