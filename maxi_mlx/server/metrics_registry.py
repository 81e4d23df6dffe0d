"""All that is counted and measured, in a registry of this server's own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

from maxi_mlx.engine.engine import Engine
from maxi_mlx.server.engine_metrics import EngineMetrics
from maxi_mlx.server.record import RequestRecord
from maxi_mlx.server.request_metrics import RequestMetrics


class Metrics:
    """Owns the registry. Lives on the event loop."""

    def __init__(self, engine: Engine) -> None:
        # They would double the series, to say when each began.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._engine = engine
        self._registry = CollectorRegistry()
        self._registry.register(EngineMetrics(engine))
        self._requests = RequestMetrics(self._registry)

    def count(self, record: RequestRecord) -> None:
        self._requests.count(record, is_loaded=self._is_loaded)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _is_loaded(self, name: str) -> bool:
        return any(model.id == name for model in self._engine.status().loaded)
