"""Every setting of the server, with its value and where the value came from.

The command line makes one `Settings`; nothing else reads flags, files or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from maxi_mlx.core.model_settings import ModelSettings

Backend = Literal["auto", "metal", "cuda", "cpu"]
Strategy = Literal["latency", "balanced", "throughput", "memory"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11434
DEFAULT_CACHE_DISK_BYTES = 10 * 2**30
DEFAULT_STORE_BYTES = 2**30
# Longer than a pause in a conversation, whose prompt cache goes with the model; short enough that a
# laptop has its memory back by the time that it is used for something else.
DEFAULT_KEEP_ALIVE_S = 30 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """How the device is shared. A strategy is a named set of these."""

    max_running_rows: int  # answers that decode together
    max_waiting_requests: int  # beyond it, 429
    # How long one slice of a prompt may hold the device beside answers; where short prompts share
    # it, four times as long.
    prefill_slice_s: float
    prefill_slice_tokens: int  # and how many tokens it may have at most
    decode_share: float  # of the device, for running answers while a prompt is read
    memory_share: float  # of the device's memory, for weights and KV caches together
    cache_share: float  # of what the weights leave of that, for prefixes kept for later


STRATEGIES: Mapping[Strategy, SchedulerSettings] = {
    # Short gaps between tokens first: small slices, few answers at once.
    "latency": SchedulerSettings(
        max_running_rows=8,
        max_waiting_requests=64,
        prefill_slice_s=0.1,
        prefill_slice_tokens=512,
        decode_share=0.5,
        memory_share=0.8,
        cache_share=0.3,
    ),
    "balanced": SchedulerSettings(
        max_running_rows=16,
        max_waiting_requests=128,
        prefill_slice_s=0.25,
        prefill_slice_tokens=1024,
        decode_share=0.3,
        memory_share=0.8,
        cache_share=0.3,
    ),
    # Most tokens a second over all clients: large slices, a full batch.
    "throughput": SchedulerSettings(
        max_running_rows=64,
        max_waiting_requests=1024,
        prefill_slice_s=1.0,
        prefill_slice_tokens=2048,
        decode_share=0.15,
        memory_share=0.85,
        cache_share=0.2,
    ),
    # Leaves room for other programs: few answers, half of the memory.
    "memory": SchedulerSettings(
        max_running_rows=4,
        max_waiting_requests=32,
        prefill_slice_s=0.25,
        prefill_slice_tokens=256,
        decode_share=0.3,
        memory_share=0.5,
        cache_share=0.1,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The server's settings. ``sources`` names, for each field, what set it: ``default``,
    ``flag --port``, ``environment MAXI_MLX_PORT``, ``file PATH``, ``strategy balanced``."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    model_dirs: tuple[Path, ...] = ()
    model: str | None = None
    pins: tuple[str, ...] = ()  # models that are loaded at start and never make room
    keep_alive_s: float = DEFAULT_KEEP_ALIVE_S  # of a model that nobody uses; inf: for ever
    fallback_model: str | None = None
    # By the names that the owner has for the models.
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    adapter_dirs: tuple[Path, ...] = ()  # beside the project's own
    adapter_models: Mapping[str, str] = field(default_factory=dict)  # by the adapters' names
    backend: Backend = "auto"
    strategy: Strategy = "balanced"
    scheduler: SchedulerSettings = STRATEGIES["balanced"]
    kv_bits: int | None = None
    max_kv_size: int | None = None
    cache_memory_bytes: int | None = None  # None: by the strategy's cache_share
    cache_disk_bytes: int = DEFAULT_CACHE_DISK_BYTES
    cache_dir: Path | None = None  # None: in the project's own folder
    store: bool = True  # keep responses, so that others can go on from them
    store_bytes: int = DEFAULT_STORE_BYTES
    store_days: float = 30.0
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    cors_origins: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    log_prompts: bool = False  # what is asked and answered, which else no log has
    drain_timeout_s: float = 30.0
    max_body_bytes: int = 256 * 1024 * 1024
    max_audio_bytes: int = 200 * 1024 * 1024  # of a recording that is sent to be written down
    sources: Mapping[str, str] = field(default_factory=dict)
