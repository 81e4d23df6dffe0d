"""Slices by time: the costs of a slice are found, whatever the order they show in."""

from __future__ import annotations

import random

import pytest

from maxi_mlx.engine.slice_size import SliceSize


def taught(*sizes: int, fixed_s: float = 0.0, token_s: float = 0.001) -> SliceSize:
    size = SliceSize()
    for num_tokens in sizes:
        size.learn(num_tokens, fixed_s + token_s * num_tokens, depth=0)
    return size


def wanted(size: SliceSize, slice_s: float, *, depth: int = 0, most_tokens: int = 1000) -> int:
    return size.tokens_for(slice_s, depth=depth, most_tokens=most_tokens)


def test_begins_small() -> None:
    assert wanted(SliceSize(), 10.0) == 32
    assert wanted(SliceSize(), 10.0, most_tokens=16) == 16


def test_follows_the_speed() -> None:
    assert wanted(taught(32), 0.1) == pytest.approx(100, abs=1)
    assert wanted(taught(32, 64, 128), 0.2) == pytest.approx(200, abs=2)


def test_knows_the_fixed_cost() -> None:
    assert wanted(taught(32, 64, 100, fixed_s=0.05), 0.2) == pytest.approx(150, abs=2)


def test_a_slice_is_never_mostly_fixed_cost() -> None:
    size = taught(32, 64, 20, fixed_s=0.06, token_s=0.0005)
    assert wanted(size, 0.05) == pytest.approx(120, abs=2)


def test_is_bounded() -> None:
    assert wanted(taught(100), 100.0, most_tokens=512) == 512
    assert wanted(taught(10), 100.0, most_tokens=512) == 160  # 16 times what was ever seen
    assert wanted(taught(100, token_s=1.0), 0.1, most_tokens=512) == 8
    assert wanted(taught(100, token_s=1.0), 0.1, most_tokens=4) == 4


def test_converges_from_a_slow_first_slice() -> None:
    """The first one compiled its kernels."""
    size = SliceSize()
    size.learn(32, 5.0, depth=0)
    for _ in range(15):
        num_tokens = wanted(size, 0.15)
        size.learn(num_tokens, 0.002 + 0.0002 * num_tokens, depth=0)
    assert wanted(size, 0.15) >= 600


def test_tiny_slices_teach_nothing() -> None:
    size = taught(100)
    size.learn(1, 50.0, depth=0)
    assert wanted(size, 0.1) == pytest.approx(100, abs=1)


def test_slices_of_a_long_prompt_keep_their_time() -> None:
    """A token costs four times as much at its end; nine slices in ten keep to 1.25 times the
    aim, however noisy the clock, and none takes twice as long."""
    size, noise = SliceSize(), random.Random(1)

    def seconds(num_tokens: int, depth: int) -> float:
        exact = 0.001 + num_tokens * (0.00005 + 0.00000005 * (depth + num_tokens / 2))
        return exact * noise.uniform(0.9, 1.1)

    for prompt in range(3):
        depth, times = 0, []
        while depth < 4000:
            num_tokens = wanted(size, 0.006, depth=depth)
            times.append(seconds(num_tokens, depth))
            size.learn(num_tokens, times[-1], depth=depth)
            depth += num_tokens
        if prompt:
            assert max(times) < 0.012
            assert sorted(times)[len(times) * 9 // 10] < 0.0075
            assert sum(times) / len(times) == pytest.approx(0.006, rel=0.15)


def test_follows_a_device_that_gets_slower() -> None:
    """A laptop on battery: slices of the same time, with fewer tokens, soon."""
    size = taught(16, 32, 64, 128, fixed_s=0.001)
    for _ in range(8):
        num_tokens = wanted(size, 0.1)
        size.learn(num_tokens, 3 * (0.001 + 0.001 * num_tokens), depth=0)
    assert wanted(size, 0.1) == pytest.approx(33, abs=5)


def test_what_was_measured_before_shows_what_is_fixed() -> None:
    """Slices of one size alone tell nothing of it."""
    fixed_s, token_s = 0.1, 0.01
    known, unknown = SliceSize([(8, fixed_s + 8 * token_s)]), SliceSize()
    for size in (known, unknown):
        for _ in range(20):
            size.learn(15, fixed_s + 15 * token_s, depth=0)
    assert wanted(known, 0.5) == pytest.approx(40, abs=2)
    assert known.worthwhile_s == pytest.approx(0.8, rel=0.05)
    assert known.spare_tokens == pytest.approx(20, abs=1)
    assert wanted(unknown, 0.5) == 30
    assert wanted(SliceSize([(8, 0.5)]), 10.0) == 32  # the first slice is no guess from that


def test_what_took_no_time_by_the_clock_was_not_measured() -> None:
    size = SliceSize([(8, 0.0)])
    size.learn(32, 0.032, depth=0)
    assert wanted(size, 0.1) == pytest.approx(100, abs=1)
