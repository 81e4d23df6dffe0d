"""Caches that hold their tokens' ids in place of keys, values and states: what comes back from a
store can be compared with what should be there, and no model has to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

Maker = Callable[[], list[Any]]


def growing() -> list[Any]:
    return [KVCache(), KVCache()]


def hybrid() -> list[Any]:
    return [ArraysCache(2), KVCache()]


def recurrent() -> list[Any]:
    return [ArraysCache(2)]


def nested() -> list[Any]:
    return [CacheList(KVCache(), ArraysCache(1)), KVCache()]


def window() -> list[Any]:
    return [KVCache(), RotatingKVCache(max_size=7, keep=2)]


MAKERS: dict[str, Maker] = {
    "growing": growing,
    "hybrid": hybrid,
    "recurrent": recurrent,
    "nested": nested,
    "window": window,
}


def read(cache: Sequence[Any], token_ids: Sequence[int]) -> None:
    """As a model does it: adds the tokens to every layer, in place."""
    if not token_ids:
        return
    ids = mx.array(list(token_ids), dtype=mx.float32)
    for entry in cache:
        if isinstance(entry, CacheList):
            read(entry.caches, token_ids)
        elif isinstance(entry, ArraysCache):
            for i in range(len(entry.cache)):
                # What a recurrence is like: all tokens so far, in their order.
                state = mx.zeros((1, 2)) if entry[i] is None else entry[i]
                for token_id in token_ids:
                    # Little enough for whole numbers in float32.
                    state = mx.array([[1.0, 0.0]]) * ((state * 31 + token_id + i) % 8191) + (
                        mx.array([[0.0, 1.0]]) * (state + 1)
                    )
                entry[i] = state
        else:
            keys = mx.broadcast_to(ids[None, None, :, None], (1, 2, len(token_ids), 4))
            entry.update_and_fetch(keys, -keys)
    mx.eval([entry.state for entry in cache])


def cache_of(make: Maker, token_ids: Sequence[int]) -> list[Any]:
    cache = make()
    read(cache, token_ids)
    return cache


def contents(cache: Sequence[Any]) -> list[Any]:
    """What the layers hold, as numbers."""
    found: list[Any] = []
    for entry in cache:
        if isinstance(entry, CacheList):
            found += contents(entry.caches)
        elif isinstance(entry, ArraysCache):
            found.append([None if a is None else a.tolist() for a in entry.cache])
        elif entry.keys is None:
            found.append(None)
        elif isinstance(entry, RotatingKVCache):
            # What it may hold besides depends on the slices in which it was read.
            sides = [entry._temporal_order(side)[0, :, :, 0] for side in (entry.keys, entry.values)]
            surplus = max(sides[0].shape[1] - entry.max_size, 0)
            keep = entry.keep
            found.append([[s[:, :keep].tolist(), s[:, keep + surplus :].tolist()] for s in sides])
        else:
            found.append([part[0, :, :, 0].tolist() for part in entry.keys_and_values()])
    return found
