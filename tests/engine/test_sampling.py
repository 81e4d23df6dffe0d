"""Draws follow the distribution that the filters leave, and depend on nothing but their row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.engine.array_module import array_module
from maxi_mlx.engine.device import describe
from maxi_mlx.engine.logits_edits import LogitsEdits
from maxi_mlx.engine.row import Row, RowSampling, draw_key
from maxi_mlx.engine.sampling import BatchSampler
from tests.engine.test_batch import DRAWN, GREEDY, make_row
from tests.engine.test_filters import LIBRARIES, XTC

LOGITS = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05], dtype=np.float32))


def sampler_of(xp: Any, rows: Sequence[Row], size: int, *, place: int = 0) -> BatchSampler:
    edits = LogitsEdits(xp).joined(rows, vocabulary_size=size)
    return BatchSampler(rows, places=[place] * len(rows), edits=edits)


def draw(sampler: BatchSampler, logits: np.ndarray) -> list[int]:
    inputs = mx.zeros((logits.shape[0],), dtype=mx.uint32)
    drawn = sampler.draw(mx.array(logits), inputs)
    assert drawn.dtype == mx.uint32
    return np.array(drawn).tolist()


def frequencies(xp: Any, sampling: RowSampling, count: int = 4000) -> np.ndarray:
    rows = [make_row(replace(sampling, seed=i), key=draw_key(i, 0)) for i in range(count)]
    drawn = draw(sampler_of(xp, rows, 5), np.broadcast_to(LOGITS, (count, 5)))
    return np.bincount(drawn, minlength=5) / count


@pytest.mark.slow
@pytest.mark.parametrize("xp", LIBRARIES)
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
        pytest.param(replace(XTC, xtc_probability=1), [0, 0, 0.5, 1 / 3, 1 / 6], id="xtc"),
        # In half of the steps the first two are left out.
        pytest.param(XTC, [0.2, 0.15, 0.325, 0.05 + 1 / 6, 0.025 + 1 / 12], id="xtc by halves"),
        pytest.param(
            replace(DRAWN, logit_bias=((4, 3.0), (0, -1.0))),
            np.array([0.1472, 0.3, 0.15, 0.1, 1.0043]) / 1.7015,
            id="bias",
        ),
        pytest.param(GREEDY, [1, 0, 0, 0, 0], id="greedy"),
    ],
)
def test_draws_follow_the_distribution(
    xp: Any, sampling: RowSampling, expected: Sequence[float]
) -> None:
    assert frequencies(xp, sampling) == pytest.approx(expected, abs=0.03)


def test_temperature_flattens_the_distribution() -> None:
    weights = np.exp(LOGITS / 2)
    found = frequencies(mx, replace(DRAWN, temperature=2.0))
    assert found == pytest.approx(weights / weights.sum(), abs=0.03)


def test_a_rows_steps_are_independent_of_each_other() -> None:
    """One row's own draws, step by step: each pair of tokens as often as it should be."""
    sampler = sampler_of(np, [make_row(DRAWN)], 2)
    drawn = np.array([draw(sampler, np.zeros((1, 2)))[0] for _ in range(4000)])
    pairs = np.bincount(drawn[:-1] * 2 + drawn[1:], minlength=4) / 3999
    assert pairs == pytest.approx([0.25] * 4, abs=0.03)


ALL_KINDS = (
    GREEDY,
    DRAWN,
    replace(DRAWN, temperature=0.7, top_p=0.9),
    replace(DRAWN, temperature=1.3, top_k=20, top_p=0.8),
    replace(DRAWN, top_k=1),
    replace(DRAWN, top_k=500),
    replace(DRAWN, min_p=0.1),
    replace(DRAWN, xtc_probability=0.5, xtc_threshold=0.01, xtc_spared=(3,)),
    replace(GREEDY, repetition_penalty=1.3),
    replace(GREEDY, presence_penalty=1.0, frequency_penalty=-0.5),
    replace(DRAWN, logit_bias=((7, 4.0), (9, -50.0)), top_p=0.5),
    replace(DRAWN, repetition_penalty=0.8, frequency_penalty=1.5, min_p=0.02, top_k=100),
)


@pytest.mark.parametrize("xp", LIBRARIES)
def test_rows_of_all_kinds_draw_together_what_each_draws_alone(xp: Any) -> None:
    size = 3000
    random = np.random.default_rng(1)
    prompts = random.integers(0, size, (len(ALL_KINDS), 30)).tolist()

    def make(i: int) -> Row:
        sampling = replace(ALL_KINDS[i], seed=i)
        return make_row(
            sampling, key=draw_key(i, 0), token_ids=list(prompts[i]), num_prompt_tokens=30
        )

    def steps(indices: Sequence[int]) -> list[list[int]]:
        sampler = sampler_of(xp, [make(i) for i in indices], size)
        inputs, drawn = mx.array([prompts[i][-1] for i in indices]), []
        for logits in many:
            inputs = sampler.draw(mx.array(logits[list(indices)]), inputs)
            drawn.append(np.array(inputs).tolist())
        return np.array(drawn).T.tolist()

    many = (random.normal(0, 2, (12, len(ALL_KINDS), size))).astype(np.float32)
    together = steps(range(len(ALL_KINDS)))
    for i, mine in enumerate(together):
        assert steps([i]) == [mine], ALL_KINDS[i]
    assert together[0] == many[:, 0].argmax(axis=-1).tolist()
    assert together[4] == many[:, 4].argmax(axis=-1).tolist()
    assert len(set(together[1])) > 6


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: str(ALL_KINDS.index(kind)))
def test_both_array_libraries_draw_the_same(kind: RowSampling) -> None:
    size = 1000
    rows = [make_row(kind, key=draw_key(i, 0), token_ids=[5, 6, 7]) for i in range(8)]
    logits = np.random.default_rng(2).normal(0, 3, (8, size)).astype(np.float32)
    samplers = [sampler_of(xp, rows, size) for xp in (np, mx)]
    for _ in range(3):
        assert draw(samplers[0], logits) == draw(samplers[1], logits)


@pytest.mark.parametrize("xp", LIBRARIES)
def test_a_draw_depends_on_seed_answer_and_place_alone(xp: Any) -> None:
    def draws(seed: int, choice: int, place: int) -> list[int]:
        sampler = sampler_of(xp, [make_row(DRAWN, key=draw_key(seed, choice))], 500, place=place)
        return [draw(sampler, np.zeros((1, 500)))[0] for _ in range(8)]

    assert draws(1, 0, 0) == draws(1, 0, 0)
    assert draws(1, 0, 3)[:5] == draws(1, 0, 0)[3:]
    assert draws(2, 0, 0) != draws(1, 0, 0)
    assert draws(1, 1, 0) != draws(1, 0, 0)


def test_a_place_beyond_the_last_word_begins_anew() -> None:
    """A key's second word may be any, and the place is added to it."""
    sampler = sampler_of(np, [make_row(DRAWN, key=(1, 2**32 - 1))], 50)
    begun = sampler_of(np, [make_row(DRAWN, key=(1, 0))], 50)
    drawn = [draw(sampler, np.zeros((1, 50))) for _ in range(3)]
    assert drawn[1:] == [draw(begun, np.zeros((1, 50))) for _ in range(2)]


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 - 1])
def test_any_64_bit_seed_has_a_key(seed: int) -> None:
    first, second = draw_key(seed, 0)
    assert 0 <= first < 2**32
    assert 0 <= second < 2**32


def test_greedy_rows_need_no_chances() -> None:
    """Nor does a top-k of one, which leaves nothing to chance."""
    sampler = sampler_of(np, [make_row(GREEDY), make_row(replace(DRAWN, top_k=1))], 8)
    assert not sampler._draws
    logits = np.array([[0, 3, 1, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 5]], dtype=np.float32)
    assert draw(sampler, logits) == [1, 7]


def test_numpy_is_for_large_vocabularies_on_the_cpu() -> None:
    assert array_module(512) is mx
    assert array_module(49_152) is (np if describe().backend == "cpu" else mx)


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("kind", [DRAWN, replace(GREEDY, logit_bias=((7, 5.0),))])
def test_the_models_logits_stay_as_they_are(xp: Any, kind: RowSampling) -> None:
    """Log-probabilities are read off them after the draw."""
    logits = mx.array(np.random.default_rng(3).normal(size=(2, 60)).astype(np.float32))
    before = np.array(logits)
    rows = [make_row(kind, token_ids=[4], num_prompt_tokens=1), make_row(GREEDY)]
    for batch in (rows, rows[:1]):
        sampler = sampler_of(xp, batch, 60)
        drawn = sampler.draw(logits[: len(batch)], mx.zeros((len(batch),), dtype=mx.uint32))
        mx.eval(drawn)
        assert np.array_equal(np.array(logits), before)
