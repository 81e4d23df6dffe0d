"""What became of each model since the start: how often it was loaded, and had to make room.

Lives on the event loop.
"""

from __future__ import annotations

from dataclasses import replace

from maxi_mlx.engine.status import ModelHistory


class Histories:
    """Owned by the model pool; of every model that was ever asked to load, by its id."""

    def __init__(self) -> None:
        self._by_id: dict[str, ModelHistory] = {}

    @property
    def all(self) -> tuple[ModelHistory, ...]:
        return tuple(self._by_id.values())

    def count_load(self, id: str, took_s: float) -> None:
        was = self._of(id)
        self._by_id[id] = replace(was, num_loads=was.num_loads + 1, load_s=was.load_s + took_s)

    def count_failed_load(self, id: str) -> None:
        was = self._of(id)
        self._by_id[id] = replace(was, num_failed_loads=was.num_failed_loads + 1)

    def count_eviction(self, id: str) -> None:
        was = self._of(id)
        self._by_id[id] = replace(was, num_evictions=was.num_evictions + 1)

    def _of(self, id: str) -> ModelHistory:
        return self._by_id.get(id) or ModelHistory(id=id)
