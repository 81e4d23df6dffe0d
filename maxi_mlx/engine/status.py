"""What the engine says of itself: plain values, safe to read from any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxi_mlx.kv_cache.counts import CacheStats
from maxi_mlx.kv_cache.disk.tier import DiskStats

EngineState = Literal["starting", "ready", "failed", "draining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """The device's memory as MLX counts it. ``limit_bytes`` is what we allow ourselves."""

    active_bytes: int
    cache_bytes: int
    peak_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model that is loaded, or being loaded. ``prefill_tokens`` were computed since then;
    ``prefixes`` are stored of its prompts, those on disk being ``disk_files``. It is loaded since
    ``loaded_s``; unused from now on, it would go in ``expires_in_s``; None: never by itself.
    ``base`` is the model whose weights it shares, which are not among its own."""

    id: str
    path: str
    state: Literal["loading", "ready"]
    loaded_s: float | None
    weight_bytes: int
    context_length: int
    num_running: int
    num_waiting: int
    kv_cache_bytes: int
    prefill_tokens: int
    prefixes: CacheStats
    disk_files: int
    disk_bytes: int
    expires_in_s: float | None
    is_pinned: bool
    base: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHistory:
    """Of one model since the start, loaded or not. ``load_s`` is what good loads took together,
    waiting for room included; an eviction made room for others."""

    id: str
    num_loads: int = 0
    num_failed_loads: int = 0
    num_evictions: int = 0
    load_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """A snapshot. ``fault`` is the last failure that took more than one request with it;
    ``kv_cache_bytes`` is what running answers hold, ``prefixes`` what is stored for later, of which
    there may be ``prefix_limit_bytes``; ``disk`` is None where it is switched off.
    ``process_bytes`` is what the process has taken of the machine's memory."""

    state: EngineState
    fault: str | None
    num_running: int
    num_waiting: int
    loaded: tuple[LoadedModel, ...]
    histories: tuple[ModelHistory, ...]
    kv_cache_bytes: int
    prefixes: CacheStats
    prefix_limit_bytes: int
    disk: DiskStats | None
    memory: MemoryStatus | None
    process_bytes: int
