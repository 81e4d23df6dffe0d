"""The server's answers about itself as they go over the wire: the types of what is made here.

The document at ``/openapi.json`` is made from them.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from maxi_mlx.engine.status import EngineStatus, MemoryStatus


class SettingValue(TypedDict):
    """A setting, and what set it."""

    value: Any
    source: str


class Health(TypedDict):
    """Who shows no key, where one is needed, gets the first three."""

    status: Literal["starting", "ok", "failed", "draining"]
    version: str
    uptime_s: float
    engine: NotRequired[EngineStatus]
    settings: NotRequired[dict[str, SettingValue]]


class Probe(TypedDict):
    """``reason``: why not, where it is not ok."""

    status: Literal["starting", "ok", "failed", "draining"]
    reason: NotRequired[str]


class KvCacheBytes(TypedDict):
    bytes: int


class DiskFiles(TypedDict):
    files: int
    bytes: int


class DiskCache(DiskFiles):
    limit_bytes: int
    queued_bytes: int
    written: int
    read: int
    dropped: int
    evicted: int
    skipped: int
    fault: str | None


class PrefixCounts(TypedDict):
    entries: int
    conversations: int
    tokens: int
    bytes: int
    bytes_saved_by_sharing: int
    hits: int
    partial_hits: int
    misses: int
    evictions: int
    restores: int
    tokens_saved: int
    hit_rate_last_hour: float | None


class ModelPrefixes(PrefixCounts):
    disk: DiskFiles


class AllPrefixes(PrefixCounts):
    limit_bytes: int
    disk: DiskCache | None


class LoadedModelStats(TypedDict):
    id: str
    state: Literal["loading", "ready"]
    weight_bytes: int
    context_length: int
    num_running: int
    num_waiting: int
    kv_cache_bytes: int
    prefill_tokens: int
    expires_in_s: float | None
    is_pinned: bool
    prefix_cache: ModelPrefixes


class CacheReport(TypedDict):
    kv_cache: KvCacheBytes
    prefix_cache: AllPrefixes
    models: list[LoadedModelStats]
    memory: MemoryStatus | None
