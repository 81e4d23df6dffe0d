"""Top-k, top-p, min-p and XTC keep what their definitions say, on both array libraries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from maxi_mlx.engine.filters import NEVER, Filters, largest
from maxi_mlx.engine.row import RowSampling
from tests.engine.test_batch import DRAWN

LIBRARIES = [pytest.param(np, id="numpy"), pytest.param(mx, id="mlx")]
# By how much of the whole a sum of float32 masses may be off.
TOLERANCE = 2e-5


def kept(
    xp: Any, params: Sequence[RowSampling], logits: NDArray[Any], coins: Sequence[float] = ()
) -> NDArray[np.bool_]:
    """Which tokens our filters leave, ``(R, V)``."""
    column = np.array(coins or [0.0] * len(params), dtype=np.float32)[:, None]
    scaled = Filters(xp, params).apply(xp.array(logits), xp.array(column))
    return np.array(scaled) > NEVER


def kept_by_definition(
    params: RowSampling, logits: NDArray[Any], *, top_p: float, coin: float = 0.0
) -> set[int]:
    """Token by token, in double precision; equally likely tokens stay or go together."""
    odds = np.exp(logits.astype(np.float64) - logits.max())
    ranked = sorted(range(len(logits)), key=lambda token: -logits[token])
    if params.top_k:
        ranked = ranked[: params.top_k]
    total = sum(odds[token] for token in ranked)
    nucleus, mass = [], 0.0
    for token in ranked:
        if nucleus and mass >= top_p * total:
            break
        nucleus.append(token)
        mass += odds[token]
    least = max(logits[nucleus[-1]], logits.max() + math.log(params.min_p or 1e-300))
    left = {token for token in range(len(logits)) if logits[token] >= least}
    if coin >= params.xtc_probability:
        return left
    total = sum(odds[token] for token in left)
    likely = [token for token in left if odds[token] >= params.xtc_threshold * total]
    if not likely:
        return left
    most = min(logits[token] for token in likely)
    if any(logits[token] > most for token in left.intersection(params.xtc_spared)):
        return left
    return {token for token in left if logits[token] <= most}


def assert_follows_definition(
    params: RowSampling, logits: NDArray[Any], row: NDArray[np.bool_], *, coin: float = 0.0
) -> None:
    """What comes within rounding of top-p or XTC's threshold may fall on either side of it."""
    found = set(np.flatnonzero(row).tolist())
    allowed = []
    for off_p, off_threshold in itertools.product((0, -TOLERANCE, TOLERANCE), repeat=2):
        near = replace(params, xtc_threshold=params.xtc_threshold + off_threshold)
        allowed.append(kept_by_definition(near, logits, top_p=params.top_p + off_p, coin=coin))
        if found == allowed[-1]:
            return
    raise AssertionError((params, len(found), [len(tokens) for tokens in allowed]))


# Few different values, as in bfloat16, so that many are equal; and all different.
LOGITS = st.one_of(
    st.lists(st.integers(-8, 8).map(lambda i: i / 2), min_size=2, max_size=80),
    st.lists(st.floats(-12, 12, width=32), min_size=2, max_size=80),
)
KINDS = st.builds(
    lambda **changes: replace(DRAWN, **changes),
    top_k=st.one_of(st.just(0), st.integers(2, 100)),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.999)),
    min_p=st.one_of(st.just(0.0), st.floats(0.001, 0.99)),
)


@pytest.mark.parametrize("xp", LIBRARIES)
@given(st.lists(KINDS, min_size=1, max_size=5), LOGITS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_rows_of_all_kinds_together_keep_what_the_definitions_say(
    xp: Any, params: list[RowSampling], values: list[float], random: Any
) -> None:
    rows = [random.sample(values, len(values)) for _ in params]
    logits = np.array(rows, dtype=np.float32)
    for p, row, found in zip(params, logits, kept(xp, params, logits), strict=True):
        assert_follows_definition(p, row, found)
        assert np.array_equal(found, kept(xp, [p], row[None])[0])  # alone as in company


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 3.0, 8.0], ids=lambda spread: f"spread {spread}")
def test_a_large_vocabulary_is_cut_as_a_small_one(xp: Any, spread: float) -> None:
    """From all tokens alike, where nearly all stay, to one that takes all."""
    logits = np.random.default_rng(5).normal(0, spread, (6, 20_011)).astype(np.float32)
    logits[1] = np.round(logits[1] * 8) / 8
    changes: list[dict[str, Any]] = [
        {"top_p": 0.9},
        {"top_p": 0.95},
        {"top_p": 0.3},
        {"top_k": 40, "top_p": 0.8},
        {"top_k": 20},
        {"min_p": 0.05},
    ]
    params = [replace(DRAWN, **change) for change in changes]
    together = kept(xp, params, logits)
    for p, row, found in zip(params, logits, together, strict=True):
        assert_follows_definition(p, row, found)
        assert np.array_equal(found, kept(xp, [p], row[None])[0])


@pytest.mark.parametrize("xp", LIBRARIES)
def test_a_row_without_top_p_keeps_its_whole_tail(xp: Any) -> None:
    """The end of a long tail is too little to be seen beside the total."""
    size = 50_000
    params = [replace(DRAWN, top_k=size - 1), DRAWN, replace(DRAWN, top_k=size, top_p=0.999)]
    logits = np.tile(np.arange(size, dtype=np.float32) / -2500, (3, 1))
    counts = kept(xp, params, logits).sum(axis=-1)
    assert counts[:2].tolist() == [size - 1, size]
    assert counts[2] == pytest.approx(2500 * math.log(1000), rel=1e-3)


@pytest.mark.parametrize("xp", LIBRARIES)
@given(LOGITS, st.integers(1, 100))
@settings(max_examples=40)
def test_largest_is_the_end_of_the_sorted_row(xp: Any, values: list[float], count: int) -> None:
    count = min(count, len(values))
    rows = np.array([values, values[::-1]], dtype=np.float32)
    assert np.array_equal(largest(xp, xp.array(rows), count), np.sort(rows)[:, -count:])


@pytest.mark.parametrize("count", [1, 7, 64])
@pytest.mark.parametrize("size", [16_384, 16_400, 16_447])
def test_the_largest_are_in_the_best_blocks(size: int, count: int) -> None:
    """Also where they crowd in one block, are all equal, or are in what the blocks leave over."""
    random = np.random.default_rng(size + count)
    crowded, level = random.normal(size=size), np.round(random.normal(size=size))
    crowded[100:140] += 50
    late = np.arange(size, dtype=np.float64)
    rows = np.stack([crowded, level, late, np.zeros(size)]).astype(np.float32)
    assert np.array_equal(largest(mx, mx.array(rows), count), np.sort(rows)[:, -count:])


PROBABILITIES = np.log(np.array([[0.4, 0.25, 0.2, 0.1, 0.05]], dtype=np.float32))
XTC = replace(DRAWN, xtc_probability=0.5, xtc_threshold=0.15)


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize(
    ("changes", "coin", "expected"),
    [
        pytest.param({}, 0.4, [2, 3, 4], id="the least likely of three stays"),
        pytest.param({}, 0.5, [0, 1, 2, 3, 4], id="not in this step"),
        pytest.param({"xtc_threshold": 0.3}, 0.0, [0, 1, 2, 3, 4], id="one alone stays"),
        pytest.param({"xtc_threshold": 0.5}, 0.0, [0, 1, 2, 3, 4], id="none so likely"),
        pytest.param({"xtc_threshold": 0.0}, 0.0, [4], id="all are likely"),
        pytest.param({"xtc_threshold": 0.0, "top_k": 3}, 0.0, [2], id="of those top-k left"),
        pytest.param({"xtc_threshold": 0.5, "top_p": 0.5}, 0.0, [0, 1], id="below after top-p"),
        pytest.param({"xtc_threshold": 0.38, "top_p": 0.5}, 0.0, [1], id="likely after top-p"),
        pytest.param({"xtc_spared": (1,)}, 0.0, [0, 1, 2, 3, 4], id="an end would go"),
        pytest.param({"xtc_spared": (2, 3)}, 0.0, [2, 3, 4], id="no end would go"),
        pytest.param({"xtc_probability": 1.0}, 0.999, [2, 3, 4], id="always"),
    ],
)
def test_xtc_leaves_out_the_top_choices(
    xp: Any, changes: dict[str, Any], coin: float, expected: list[int]
) -> None:
    params = replace(XTC, **changes)
    # A row without XTC, and one that spares more tokens, beside it.
    company = [params, DRAWN, replace(XTC, xtc_spared=(0, 1, 2))]
    logits = np.repeat(PROBABILITIES, 3, axis=0)
    found = kept(xp, company, logits, [coin, 0.0, 0.0])
    assert np.flatnonzero(found[0]).tolist() == expected
    assert found[1:].all()
    assert np.array_equal(kept(xp, [params], PROBABILITIES, [coin]), found[:1])


@pytest.mark.parametrize("xp", LIBRARIES)
@given(
    KINDS,
    st.builds(
        lambda **changes: changes,
        xtc_probability=st.sampled_from([0.25, 0.5, 1.0]),
        xtc_threshold=st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.5]),
        xtc_spared=st.sampled_from([(), (0,), (0, 1)]),
    ),
    LOGITS,
    st.floats(0, 1, exclude_max=True, width=32),
)
@settings(max_examples=60)
def test_xtc_after_the_other_filters(
    xp: Any, params: RowSampling, xtc: dict[str, Any], values: list[float], coin: float
) -> None:
    params = replace(params, **xtc)
    logits = np.array([values], dtype=np.float32)
    found = kept(xp, [params], logits, [coin])[0]
    assert_follows_definition(params, logits[0], found, coin=coin)


@pytest.mark.parametrize("xp", LIBRARIES)
@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_a_broken_models_logits_read_nothing_beyond_their_end(xp: Any, value: float) -> None:
    params = [replace(DRAWN, top_p=0.5), replace(DRAWN, top_k=3, top_p=0.5)]
    with np.errstate(invalid="ignore"):
        found = kept(xp, params, np.full((2, 40), value, dtype=np.float32))
    assert found.shape == (2, 40)
