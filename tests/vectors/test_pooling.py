"""Every way of pooling against plain numpy, with padding that must not count."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from maxi_mlx.core.models import Pooling
from maxi_mlx.engine import device

device.prepare("auto")

import mlx.core as mx  # noqa: E402

from maxi_mlx.engine.vectors.pooling import normalize, pool  # noqa: E402

LENGTHS, STARTS, WIDTH = [1, 5, 3, 7], [0, 2, 0, 6], 6
MODES: list[Pooling] = ["cls", "mean", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"]


def by_hand(vectors: NDArray[np.float32], start: int, mode: Pooling) -> NDArray[np.float32]:
    """``vectors`` are a row's real ones: (tokens, width)."""
    counted = vectors[start:]
    places = np.arange(start, len(vectors))[:, None] + 1
    match mode:
        case "cls":
            return counted[0]
        case "mean":
            return counted.mean(axis=0)
        case "max":
            return counted.max(axis=0)
        case "lasttoken":
            return counted[-1]
        case "weightedmean":
            return (counted * places).sum(axis=0) / places.sum()
        case "mean_sqrt_len_tokens":
            return counted.sum(axis=0) / np.sqrt(len(counted))


def padded(*, filling: float) -> NDArray[np.float32]:
    hidden = np.random.default_rng(3).standard_normal((len(LENGTHS), 9, WIDTH)).astype(np.float32)
    for row, length in zip(hidden, LENGTHS, strict=True):
        row[length:] = filling
    return hidden


@pytest.mark.parametrize("mode", MODES)
def test_pooling(mode: Pooling) -> None:
    hidden = padded(filling=1e6)
    pooled = np.array(pool(mx.array(hidden), mx.array(STARTS), mx.array(LENGTHS), [mode]))
    for index, (length, start) in enumerate(zip(LENGTHS, STARTS, strict=True)):
        expected = by_hand(hidden[index, :length], start, mode)
        np.testing.assert_allclose(pooled[index], expected, rtol=2e-5, atol=2e-5)


def test_several_ways_are_joined_in_order() -> None:
    hidden, starts, ends = mx.array(padded(filling=0)), mx.array(STARTS), mx.array(LENGTHS)
    both = np.array(pool(hidden, starts, ends, ["max", "cls"]))
    assert np.array_equal(both[:, :WIDTH], np.array(pool(hidden, starts, ends, ["max"])))
    assert np.array_equal(both[:, WIDTH:], np.array(pool(hidden, starts, ends, ["cls"])))


def test_half_precision_is_pooled_in_single() -> None:
    """A sum of many in half precision would be off by far more."""
    hidden = mx.full((1, 4000, 2), 0.1, dtype=mx.float16)
    pooled = np.array(pool(hidden, mx.array([0]), mx.array([4000]), ["mean"]))
    assert np.abs(pooled - np.float32(np.float16(0.1))).max() < 1e-6


def test_a_vector_of_nothing_stays_finite() -> None:
    assert np.array_equal(np.array(normalize(mx.zeros((1, 4)))), np.zeros((1, 4)))
