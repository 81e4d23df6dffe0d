"""Which rows decode in one batch. A batch is as long as its longest row: once its padding outweighs
the model's weights, two batches read less memory a step, though each of them reads the weights."""

from __future__ import annotations

from collections.abc import Sequence

from maxi_mlx.engine.batch import DecodeBatch, Newcomer
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.row import Row


def fitting(
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


def may_unite(first: DecodeBatch, second: DecodeBatch, model: LanguageModel) -> bool:
    return _is_worth_it([len(row.token_ids) for row in (*first.rows, *second.rows)], model)


def _is_worth_it(lengths: Sequence[int], model: LanguageModel) -> bool:
    return model.kv_cost.padding_bytes(lengths) <= model.entry.all_weight_bytes
