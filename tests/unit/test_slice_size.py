"""Slices by time: the two costs of a slice are found, whatever the order they show in."""

from __future__ import annotations

import pytest

from maxi_mlx.engine.slice_size import SliceSize


def taught(*sizes: int, fixed_s: float = 0.0, token_s: float = 0.001) -> SliceSize:
    size = SliceSize()
    for num_tokens in sizes:
        size.learn(num_tokens, fixed_s + token_s * num_tokens)
    return size


def test_begins_small() -> None:
    assert SliceSize().tokens_for(10.0, most_tokens=1000) == 32
    assert SliceSize().tokens_for(10.0, most_tokens=16) == 16


def test_follows_the_speed() -> None:
    assert taught(32).tokens_for(0.1, most_tokens=1000) == pytest.approx(100, abs=1)
    assert taught(32, 64, 128).tokens_for(0.2, most_tokens=1000) == pytest.approx(200, abs=2)


def test_knows_the_fixed_cost() -> None:
    size = taught(32, 64, 100, fixed_s=0.05)
    assert size.tokens_for(0.2, most_tokens=1000) == pytest.approx(150, abs=2)


def test_a_slice_is_never_mostly_fixed_cost() -> None:
    size = taught(32, 64, 20, fixed_s=0.06, token_s=0.0005)
    assert size.tokens_for(0.05, most_tokens=1000) == pytest.approx(120, abs=2)


def test_is_bounded() -> None:
    assert taught(100).tokens_for(100.0, most_tokens=512) == 512
    assert taught(100, token_s=1.0).tokens_for(0.1, most_tokens=512) == 8
    assert taught(100, token_s=1.0).tokens_for(0.1, most_tokens=4) == 4


def test_converges_from_a_slow_first_slice() -> None:
    """The first one compiled its kernels."""
    size = SliceSize()
    size.learn(32, 5.0)
    for _ in range(15):
        num_tokens = size.tokens_for(0.15, most_tokens=1024)
        size.learn(num_tokens, 0.002 + 0.0002 * num_tokens)
    assert size.tokens_for(0.15, most_tokens=1024) >= 600


def test_tiny_slices_teach_nothing() -> None:
    size = taught(100)
    size.learn(1, 50.0)
    assert size.tokens_for(0.1, most_tokens=1000) == pytest.approx(100, abs=1)
