"""The engine's figures as metrics, read from its snapshot whenever somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.status import EngineState, EngineStatus, LoadedModel, MemoryStatus
from maxi_mlx.server.request_metrics import label

# A metric's values: those of its labels, and a number.
Samples = Iterable[tuple[tuple[str, ...], float]]


class EngineMetrics(Collector):
    """Lives on the event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        status = self._engine.status()
        yield _gauge(
            "engine_state",
            "1 for the state that the engine is in.",
            (((state,), float(state == status.state)) for state in get_args(EngineState)),
            "state",
        )
        yield _gauge("requests_running", "Requests being answered.", _one(status.num_running))
        yield _gauge("requests_waiting", "Requests that wait.", _one(status.num_waiting))
        yield from _loaded(status.loaded)
        yield from _histories(status)
        yield from _prompt_cache(status)
        yield from _memory(status.memory)
        yield _gauge(
            "process_memory_bytes",
            "What the process has taken of the machine's memory.",
            _one(status.process_bytes),
        )


def _loaded(models: Iterable[LoadedModel]) -> Iterator[Metric]:
    models = tuple(models)
    yield _gauge(
        "model_loaded",
        "1 for a model that is loaded, 0 for one on its way.",
        (((label(model.id),), float(model.state == "ready")) for model in models),
        "model",
    )
    for name, text, field in (
        ("model_weights_bytes", "Weights of a model.", "weight_bytes"),
        ("rows_running", "Answers being written, and prompts being read.", "num_running"),
        ("rows_waiting", "Answers whose prompts wait to be read.", "num_waiting"),
        ("kv_cache_bytes", "Keys and values of running answers.", "kv_cache_bytes"),
    ):
        samples = [((label(model.id),), getattr(model, field)) for model in models]
        yield _gauge(name, text, samples, "model")


def _histories(status: EngineStatus) -> Iterator[Metric]:
    for name, text, field in (
        ("model_loads", "Loads that went well.", "num_loads"),
        ("model_load_failures", "Loads that did not.", "num_failed_loads"),
        ("model_load_seconds", "What the good loads took, waiting for room included.", "load_s"),
        ("model_evictions", "Unloads to make room for others.", "num_evictions"),
    ):
        samples = [((label(model.id),), getattr(model, field)) for model in status.histories]
        yield _counter(name, text, samples, "model")


def _prompt_cache(status: EngineStatus) -> Iterator[Metric]:
    prefixes = status.prefixes
    on_disk = status.disk.num_bytes if status.disk is not None else 0
    yield _gauge(
        "prompt_cache_bytes",
        "Stored prefixes of prompts.",
        [(("memory",), prefixes.num_bytes), (("disk",), on_disk)],
        "place",
    )
    yield _gauge(
        "prompt_cache_limit_bytes",
        "What they may take of the memory.",
        _one(status.prefix_limit_bytes),
    )
    yield _counter(
        "prompt_cache_hit_tokens",
        "Tokens of prompts that need not be read.",
        _one(prefixes.num_tokens_saved),
    )
    yield _counter(
        "prompt_cache_lookups",
        "Prompts looked up in the cache.",
        [
            (("hit",), prefixes.num_hits),
            (("partial",), prefixes.num_partial_hits),
            (("miss",), prefixes.num_misses),
        ],
        "result",
    )
    yield _counter("prompt_cache_evictions", "Pieces that made room.", _one(prefixes.num_evictions))


def _memory(memory: MemoryStatus | None) -> Iterator[Metric]:
    """None until the device was asked for the first time."""
    if memory is None:
        return
    for name, text, num_bytes in (
        ("active", "The device's memory in use, as MLX counts it.", memory.active_bytes),
        ("cache", "The device's memory that MLX keeps for later use.", memory.cache_bytes),
        ("peak", "The most that was in use.", memory.peak_bytes),
        ("limit", "What models may take.", memory.limit_bytes),
    ):
        yield _gauge(f"device_memory_{name}_bytes", text, _one(num_bytes))


def _one(value: float) -> Samples:
    return [((), value)]


def _gauge(name: str, text: str, samples: Samples, *labels: str) -> Metric:
    family = GaugeMetricFamily(f"maxi_mlx_{name}", text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, samples: Samples, *labels: str) -> Metric:
    family = CounterMetricFamily(f"maxi_mlx_{name}", text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family
