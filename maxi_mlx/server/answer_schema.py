"""The server's answers about itself as they go over the wire: the types of what is made here.

The document at ``/openapi.json`` is made from them.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from maxi_mlx.engine.status import EngineState, EngineStatus, MemoryStatus


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


class StatusPrefixes(TypedDict):
    bytes: int
    limit_bytes: int
    disk_bytes: int | None
    disk_limit_bytes: int | None
    hit_rate_last_hour: float | None
    tokens_saved: int


class StatusModel(TypedDict):
    id: str
    state: Literal["loading", "ready"]
    weight_bytes: int
    kv_cache_bytes: int
    num_running: int
    expires_in_s: float | None
    is_pinned: bool


# Waiting for a model or a place, reading the prompt, writing the answer; working: on a recording.
RequestPhase = Literal["waiting", "reading", "writing", "working"]


class RequestUnderWay(TypedDict):
    """``read_tokens`` of its prompt are read; the rate is that of its answer so far."""

    id: str
    api: str | None
    path: str
    model: str | None
    phase: RequestPhase
    elapsed_s: float
    prompt_tokens: int | None
    read_tokens: int | None
    completion_tokens: int
    tokens_per_second: float | None


class Status(TypedDict):
    """``tokens_per_second`` is of all requests, over the last two seconds; ``completion_tokens``
    were written since the start."""

    version: str
    state: EngineState
    fault: str | None
    uptime_s: float
    num_running: int
    num_waiting: int
    tokens_per_second: float
    completion_tokens: int
    memory: MemoryStatus | None
    weight_bytes: int
    kv_cache_bytes: int
    prefix_cache: StatusPrefixes
    models: list[StatusModel]
    requests: list[RequestUnderWay]


class CancelledRequest(TypedDict):
    id: str
    cancelled: Literal[True]
