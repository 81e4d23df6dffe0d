"""Draws follow the distribution that temperature, top-k, top-p and min-p leave."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.engine.row import RowSampling, draw_key
from maxi_mlx.engine.sampling import BatchSampler
from tests.engine.test_batch import DRAWN, GREEDY, make_row

LOGITS = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05], dtype=np.float32))


def frequencies(sampling: RowSampling, count: int = 4000) -> np.ndarray:
    rows = [make_row(replace(sampling, seed=i), key=draw_key(i, 0)) for i in range(count)]
    sampler = BatchSampler(rows, [0] * count)
    drawn = np.array(sampler.draw(mx.broadcast_to(mx.array(LOGITS), (count, 5))))
    return np.bincount(drawn, minlength=5) / count


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        pytest.param(DRAWN, [0.4, 0.3, 0.15, 0.1, 0.05], id="plain"),
        pytest.param(replace(DRAWN, top_k=2), [4 / 7, 3 / 7, 0, 0, 0], id="top_k"),
        pytest.param(replace(DRAWN, top_p=0.8), [40 / 85, 30 / 85, 15 / 85, 0, 0], id="top_p"),
        pytest.param(replace(DRAWN, min_p=0.3), [40 / 85, 30 / 85, 15 / 85, 0, 0], id="min_p"),
        pytest.param(replace(DRAWN, top_k=3, top_p=0.5), [4 / 7, 3 / 7, 0, 0, 0], id="both"),
        pytest.param(replace(DRAWN, temperature=0.01), [1, 0, 0, 0, 0], id="cold"),
        pytest.param(replace(DRAWN, top_k=500), [0.4, 0.3, 0.15, 0.1, 0.05], id="top_k > V"),
        pytest.param(GREEDY, [1, 0, 0, 0, 0], id="greedy"),
    ],
)
def test_draws_follow_the_distribution(sampling: RowSampling, expected: list[float]) -> None:
    assert frequencies(sampling) == pytest.approx(expected, abs=0.03)


def test_temperature_flattens_the_distribution() -> None:
    weights = np.exp(LOGITS / 2)
    found = frequencies(replace(DRAWN, temperature=2.0))
    assert found == pytest.approx(weights / weights.sum(), abs=0.03)


def test_every_row_has_its_own_settings() -> None:
    rows = [make_row(GREEDY), make_row(replace(DRAWN, top_k=1)), make_row(DRAWN)]
    sampler = BatchSampler(rows, [0, 0, 0])
    logits = mx.broadcast_to(mx.array(LOGITS), (3, 5))
    drawn = np.array([np.array(sampler.draw(logits)) for _ in range(200)])
    assert set(drawn[:, 0]) == {0}
    assert set(drawn[:, 1]) == {0}
    assert set(drawn[:, 2]) == {0, 1, 2, 3, 4}


def test_a_draw_depends_on_seed_answer_and_place_alone() -> None:
    logits = mx.zeros((1, 500))

    def draws(seed: int, choice: int, place: int) -> list[int]:
        row = make_row(DRAWN, key=draw_key(seed, choice))
        sampler = BatchSampler([row], [place])
        return [int(sampler.draw(logits).item()) for _ in range(8)]

    assert draws(1, 0, 0) == draws(1, 0, 0)
    assert draws(1, 0, 3)[:5] == draws(1, 0, 0)[3:]
    assert draws(2, 0, 0) != draws(1, 0, 0)
    assert draws(1, 1, 0) != draws(1, 0, 0)


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 - 1])
def test_any_64_bit_seed_has_a_key(seed: int) -> None:
    first, second = draw_key(seed, 0)
    assert 0 <= first < 2**32
    assert 0 <= second < 2**32


def test_a_row_without_top_p_keeps_its_whole_tail_beside_one_with_it() -> None:
    """The running sum of a long tail may round to 1 before its end."""
    size = 50_000
    rows = [make_row(replace(DRAWN, seed=i, top_k=size - 1)) for i in range(2)]
    rows.append(make_row(replace(DRAWN, top_p=0.5)))
    logits = mx.broadcast_to(mx.arange(size) / -1e5, (3, size))
    scaled = BatchSampler(rows, [0, 0, 0])._tail.cut(mx.array(logits))  # type: ignore[union-attr]
    kept = (scaled > -1e29).sum(axis=-1).tolist()
    assert kept[:2] == [size - 1, size - 1]
    assert kept[2] < size * 0.6


def test_only_the_rows_that_cut_are_sorted() -> None:
    rows = [make_row(DRAWN), make_row(GREEDY), make_row(replace(DRAWN, top_p=0.9))]
    tail = BatchSampler(rows, [0, 0, 0])._tail
    assert tail is not None
    assert tail._rows.tolist() == [2]
    assert BatchSampler(rows[:2], [0, 0])._tail is None
