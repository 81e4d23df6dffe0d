"""The prefix cache: what was computed of any prompt of any model, under one budget of bytes.

Lives on the device thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from maxi_mlx.kv_cache.budget import Budget
from maxi_mlx.kv_cache.counts import CacheStats, Counts, HitRate
from maxi_mlx.kv_cache.disk_port import DiskPort
from maxi_mlx.kv_cache.model_store import ModelStore
from maxi_mlx.kv_cache.pieces import BLOCK_TOKENS
from maxi_mlx.kv_cache.shelf import Post, Shelf

# Until somebody has measured it; all models alike.
_TOKEN_COST_S = 1e-3


class PrefixStore:
    """``post`` brings a function to the device thread from any other: a disk needs it.
    ``left_bytes`` is what of the device's memory may still be taken, and ``clock`` gives seconds.
    """

    def __init__(
        self,
        budget_bytes: int,
        *,
        disk: DiskPort | None = None,
        post: Post | None = None,
        left_bytes: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        block_tokens: int = BLOCK_TOKENS,
    ) -> None:
        if disk is not None and post is None:
            raise TypeError("a store with a disk needs `post`, for what the disk answers")
        self._budget = Budget(budget_bytes, left_bytes)
        self._shelf = Shelf(disk, post) if disk is not None and post is not None else None
        self._clock = clock
        self._block_tokens = block_tokens
        self._models: list[ModelStore] = []
        # Of models that are closed, so that totals never fall.
        self._closed_counts = Counts()
        self._hit_rate = HitRate(clock)

    @property
    def num_bytes(self) -> int:
        """What is stored now."""
        return self._budget.num_bytes

    @property
    def budget_bytes(self) -> int:
        return self._budget.budget_bytes

    @budget_bytes.setter
    def budget_bytes(self, value: int) -> None:
        self._budget.budget_bytes = value
        self._budget.shrink_to(value)

    def shrink_to(self, num_bytes: int) -> None:
        """Evicts the least valuable, now; the budget stays. What is freed goes back to MLX's pool
        of buffers."""
        self._budget.shrink_to(num_bytes)

    def open(
        self,
        namespace: str,
        new_cache: Callable[[], list[Any]],
        *,
        token_cost_s: float = _TOKEN_COST_S,
    ) -> ModelStore:
        """For a model that was loaded. ``namespace`` names all that its caches depend on besides
        tokens (weights, adapter, form of the caches); ``new_cache`` makes a row's empty ones."""
        model_store = ModelStore(
            namespace,
            new_cache,
            budget=self._budget,
            shelf=self._shelf,
            clock=self._clock,
            total_rate=self._hit_rate,
            block_tokens=self._block_tokens,
            token_cost_s=token_cost_s,
        )
        self._models.append(model_store)
        return model_store

    def close(self, model_store: ModelStore) -> None:
        """When a model is unloaded: its memory is given back, what is on disk stays. It finds and
        keeps nothing any more."""
        if model_store not in self._models:
            return
        self._models.remove(model_store)
        model_store.close()
        self._closed_counts.add(model_store.counts)

    def stats(self) -> CacheStats:
        """Of all models; counters since the start, those of closed models among them."""
        totals: dict[str, Any] = {entry.name: 0 for entry in fields(CacheStats)}
        totals |= self._closed_counts.as_dict()
        for model_store in self._models:
            reading = model_store.stats()
            for entry in fields(CacheStats):
                if entry.name != "hit_rate":
                    totals[entry.name] += getattr(reading, entry.name)
        return CacheStats(**totals | {"hit_rate": self._hit_rate.rate()})
