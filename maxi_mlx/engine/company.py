"""Which rows decode in one batch. A batch is as long as its longest row: once its padding outweighs
the model's weights, two batches read less memory a step, though each of them reads the weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from maxi_mlx.engine.batch import DecodeBatch, Newcomer
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.prefill import copy_cache
from maxi_mlx.engine.row import PromptJob, Row


def starting(
    jobs: Sequence[PromptJob], batches: Sequence[DecodeBatch], model: LanguageModel
) -> Iterator[tuple[DecodeBatch, list[Newcomer]]]:
    """Which batch the rows of prompts that are read join: together where that is possible and
    costs less than a pass of their own. Takes the prompts' caches."""
    together: list[Newcomer] = []
    for job in jobs:
        for row in job.rows:
            if model.can_batch and not row.is_suspect:
                together.append(Newcomer(row, list(job.cache)))
            else:
                yield DecodeBatch(model.model), [Newcomer(row, copy_cache(job.cache))]
        job.cache = []  # else it would hold what has joined
    yield from _companies(together, batches, model)


def _companies(
    newcomers: list[Newcomer], batches: Sequence[DecodeBatch], model: LanguageModel
) -> Iterator[tuple[DecodeBatch, list[Newcomer]]]:
    """Which batch they join, the shortest first: one of these, or a new one. Empties the list."""
    left = sorted(newcomers, key=lambda newcomer: len(newcomer.row.token_ids))
    newcomers.clear()  # whoever has joined is not to be held
    for batch in _shared(batches, model):
        joining = _fitting(left, beside=batch.rows, model=model)
        if joining:
            yield batch, joining
        left = [newcomer for newcomer in left if newcomer not in joining]
    while left:
        joining = _fitting(left, beside=(), model=model)
        yield DecodeBatch(model.model), joining
        left = [newcomer for newcomer in left if newcomer not in joining]


def pair_to_unite(
    batches: Sequence[DecodeBatch], model: LanguageModel
) -> tuple[DecodeBatch, DecodeBatch] | None:
    """Two that were kept apart by their rows' lengths, and would fit now."""
    for first, second in itertools.combinations(_shared(batches, model), 2):
        if _is_worth_it([len(row.token_ids) for row in (*first.rows, *second.rows)], model):
            return first, second
    return None


def _shared(batches: Sequence[DecodeBatch], model: LanguageModel) -> list[DecodeBatch]:
    """Those that others may join."""
    return [batch for batch in batches if model.can_batch and not batch.rows[0].is_suspect]


def _fitting(
    newcomers: Sequence[Newcomer], *, beside: Sequence[Row], model: LanguageModel
) -> list[Newcomer]:
    """Those of them that may share a batch with these rows."""
    lengths = [len(row.token_ids) for row in beside]
    chosen = []
    for newcomer in newcomers:
        more = [*lengths, len(newcomer.row.token_ids)]
        if _is_worth_it(more, model):
            chosen.append(newcomer)
            lengths = more
    return chosen


def _is_worth_it(lengths: Sequence[int], model: LanguageModel) -> bool:
    return model.kv_cost.padding_bytes(lengths) <= model.entry.all_weight_bytes
