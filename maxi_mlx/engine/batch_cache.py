"""The caches of rows that decode together: mlx-lm's batched ones, made of the rows' own.

What is made of caches is there beside them until it is computed. So that this costs the memory of
a few layers and not of all, it is computed a few layers at a time, and each layer that is done
with goes at once. Lives on the device thread.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from maxi_mlx.engine.kv_cost import COPY_BYTES


class CachesLost(Exception):
    """Joining failed half way: some layers have the newcomers, some have not."""


def can_batch(cache: Sequence[Any]) -> bool:
    """Whether rows with such caches can decode in one batch. mlx-lm's batched windows do not keep
    the first tokens, as a plain one may."""
    return all(
        can_batch(entry.caches)
        if hasattr(entry, "caches")
        else hasattr(entry, "merge") and not getattr(entry, "keep", 0)
        for entry in cache
    )


def cache_bytes(cache: Iterable[Any]) -> int:
    return sum(int(entry.nbytes) for entry in cache if not entry.empty())


def evaluate(cache: Sequence[Any]) -> None:
    """Computes what a cache holds, so that nothing lazy outlives the work that made it."""
    mx.eval([entry.state for entry in cache if not entry.empty()])


def evaluate_by_layers(cache: Sequence[Any]) -> None:
    """The same of one that was made of another: a few layers of both are there at a time."""
    for layers in _groups([cache]):
        evaluate([cache[layer] for layer in layers])


def merge_caches(caches: Sequence[list[Any]]) -> list[Any]:
    """Plain caches of several rows as one batched cache, layer by layer, lazily."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


def extract_cache(model: Any, batched: Sequence[Any], index: int) -> list[Any]:
    """One row's plain cache out of a batched one, lazily."""
    if any(entry.empty() for entry in batched):
        # Nothing was read yet (a prompt of one token): empty caches can't be cut.
        return list(make_prompt_cache(model))
    return [entry.extract(index) for entry in batched]


def join_caches(
    batched: list[Any], newcomers: Sequence[list[Any]], *, is_merged: bool
) -> list[Any]:
    """One batched cache of the rows of a batch, which has none if ``batched`` is empty, and of
    newcomers with their own; of one row alone, a plain one.

    ``is_merged``: the batch's is no plain cache. Layers are taken out of all of these lists as
    they are done with. Where it raises they are as they were, but for CachesLost.
    """
    if not batched and len(newcomers) == 1:
        evaluate(newcomers[0])
        return newcomers[0]
    sources = [batched, *newcomers] if batched else list(newcomers)
    joined: list[Any] = []
    for layers in list(_groups(sources)):
        try:
            made = [
                _joined(
                    batched[layer] if batched else None,
                    [cache[layer] for cache in newcomers],
                    is_merged=is_merged,
                )
                for layer in layers
            ]
            evaluate_by_layers(made)
        except Exception as error:
            if not joined:
                raise
            raise CachesLost from error
        joined += made
        for cache in sources:
            for layer in layers:
                cache[layer] = None
    return joined


def _joined(mine: Any, theirs: list[Any], *, is_merged: bool) -> Any:
    merged = theirs[0].merge(theirs)
    if mine is None:
        return merged
    # In place is what mlx-lm does, and mine is to stay as it is where computing it fails.
    joined = copy.deepcopy(mine) if is_merged else mine.merge([mine])
    joined.extend(merged)
    return joined


def _groups(caches: Sequence[Sequence[Any]]) -> Iterator[list[int]]:
    """The layers' places, in groups of about as many bytes as may be there twice."""
    group: list[int] = []
    num_bytes = 0
    for layer in range(len(caches[0])):
        group.append(layer)
        num_bytes += cache_bytes(cache[layer] for cache in caches)
        if num_bytes >= COPY_BYTES:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group
