"""What the engine says of itself: plain values, safe to read from any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    """A model that is loaded, or being loaded. ``prefill_tokens`` were computed since then."""

    id: str
    state: Literal["loading", "ready"]
    weight_bytes: int
    context_length: int
    num_running: int
    kv_cache_bytes: int
    prefill_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """A snapshot. ``fault`` is the last failure that took more than one request with it."""

    state: EngineState
    fault: str | None
    num_running: int
    num_waiting: int
    loaded: tuple[LoadedModel, ...]
    kv_cache_bytes: int
    memory: MemoryStatus | None
