"""Penalties and bias of a whole batch, against plain numpy, while rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from maxi_mlx.engine.logits_edits import LogitsEdits
from maxi_mlx.engine.row import Row, RowSampling
from tests.engine.test_batch import GREEDY, make_row
from tests.engine.test_filters import LIBRARIES

SIZE = 200
PLAIN = GREEDY
REPEATS = replace(GREEDY, repetition_penalty=1.3)
BOLDER = replace(GREEDY, repetition_penalty=0.8, logit_bias=((3, -100.0),))
COUNTS = replace(GREEDY, presence_penalty=0.7, frequency_penalty=-0.4)
BIASED = replace(GREEDY, logit_bias=((0, 2.5), (SIZE - 1, -1.0)))
EVERYTHING = replace(
    GREEDY,
    repetition_penalty=1.2,
    presence_penalty=-0.4,
    frequency_penalty=0.3,
    logit_bias=((17, 1.5), (5, -4.0)),
)


def edited_by_definition(row: Row, logits: NDArray[Any]) -> NDArray[np.float64]:
    """By the row's whole text, of which our edits see one token a step."""
    params, values = row.sampling, logits.astype(np.float64)
    if params.repetition_penalty != 1:
        for token in set(row.token_ids):
            value = values[token]
            factor = params.repetition_penalty
            values[token] = value / factor if value > 0 else value * factor
    answer = row.token_ids[row.num_prompt_tokens :]
    for token in set(answer):
        values[token] -= params.presence_penalty
        values[token] -= params.frequency_penalty * answer.count(token)
    for token, bias in params.logit_bias:
        values[token] += bias
    return values


class Table:
    """A batch as our edits see it: every step feeds each row's last token and draws another."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.random = np.random.default_rng(0)
        self.edits = LogitsEdits(xp)
        self.rows: list[Row] = []

    def join(self, *kinds: RowSampling, num_answered: int = 0) -> None:
        rows = []
        for kind in kinds:
            tokens = self.random.integers(0, SIZE, 8 + num_answered).tolist()
            rows.append(make_row(kind, token_ids=tokens, num_prompt_tokens=8))
        self.edits = self.edits.joined(rows, vocabulary_size=SIZE)
        self.rows += rows

    def keep(self, places: Sequence[int]) -> None:
        self.edits = self.edits.kept(places)
        self.rows = [self.rows[i] for i in places]

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            logits = self.random.normal(0, 3, (len(self.rows), SIZE)).astype(np.float32)
            before = logits.copy()
            inputs = np.array([row.token_ids[-1] for row in self.rows], dtype=np.uint32)
            values = self.edits.apply(self.xp.array(logits), self.xp.array(inputs))
            assert np.array_equal(logits, before)
            for row, mine, plain in zip(self.rows, np.array(values), logits, strict=True):
                expected = edited_by_definition(row, plain)
                assert mine == pytest.approx(expected, rel=1e-5, abs=1e-5)
                # Few different ones, so that they repeat.
                row.token_ids.append(int(self.random.integers(0, 12)))


@pytest.mark.parametrize("xp", LIBRARIES)
def test_edits_follow_their_definitions_while_rows_come_and_go(xp: Any) -> None:
    table = Table(xp)
    table.join(PLAIN, REPEATS, COUNTS)
    table.step(4)
    table.join(BIASED, EVERYTHING)  # a bias alone comes to tables that it needs not
    table.join(PLAIN, BOLDER)  # before the others' first step
    table.step(5)
    table.keep([0, 2, 3, 4, 6])
    table.step(3)
    table.join(EVERYTHING, num_answered=6)  # goes on after an interruption
    table.keep([3, 5, 1])  # before its first step, and in another order
    table.step(4)


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("kind", [REPEATS, BOLDER, COUNTS, BIASED, EVERYTHING])
def test_one_kind_alone(xp: Any, kind: RowSampling) -> None:
    table = Table(xp)
    table.join(kind)
    table.step(20)
    table.join(kind, kind)
    table.keep([2])
    table.step(3)


@pytest.mark.parametrize("xp", LIBRARIES)
def test_tables_are_there_only_for_rows_that_need_them(xp: Any) -> None:
    table = Table(xp)
    table.join(PLAIN, BIASED)
    assert (table.edits._seen, table.edits._counts) == (None, None)
    table.join(REPEATS)
    assert table.edits._seen.shape == (2, SIZE)
    assert table.edits._counts is None
    table.join(COUNTS)
    table.step()
    table.keep([0, 1, 3])
    assert table.edits._seen is None
    assert table.edits._counts.shape == (2, SIZE)
    table.step()
    table.keep([0])
    assert (table.edits._seen, table.edits._counts, len(table.edits)) == (None, None, 0)


def test_tables_give_their_memory_back() -> None:
    """What MLX really holds: a lazy slice would pin the whole table."""
    before = mx.get_active_memory()
    rows = [make_row(EVERYTHING, token_ids=[1], num_prompt_tokens=1) for _ in range(16)]
    size = 50_000
    edits = LogitsEdits(mx).joined(rows, vocabulary_size=size)
    full = mx.get_active_memory() - before
    assert full >= 16 * size * 5
    edits = edits.kept([3])
    assert mx.get_active_memory() - before <= full / 8
