"""Which inputs share a batch, and how large it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.engine.vectors.batches import BatchSize, Inputs, pick


def inputs(*lengths: int) -> Inputs:
    return Inputs(dict(enumerate(lengths)))


def up_to(tokens: int):  # type: ignore[no-untyped-def]
    return lambda count, longest: count * longest <= tokens


def test_the_first_request_sets_the_length_from_its_longest_input() -> None:
    first = inputs(10, 100, 90, 95)
    assert pick([first], up_to(250), most_padding=30) == [[1, 3]]
    assert first.longest == 90
    assert len(first) == 2


def test_what_the_first_leaves_free_goes_to_those_that_are_nearest() -> None:
    requests = [inputs(100), inputs(90, 80, 70, 99), inputs(95, 101, 65)]
    assert pick(requests, up_to(400), most_padding=100) == [[0], [3, 0], [0]]


def test_the_first_ones_own_inputs_come_before_others_that_are_nearer() -> None:
    requests = [inputs(100, 90, 80), inputs(99, 98)]
    assert pick(requests, up_to(10_000), most_padding=30) == [[0, 1], [0, 1]]


def test_of_equal_ones_those_of_the_first_come_first() -> None:
    requests = [inputs(40, 40), inputs(40, 40)]
    assert pick(requests, up_to(120), most_padding=0) == [[1, 0], [1]]


def test_one_input_is_a_batch_however_long() -> None:
    assert pick([inputs(1000)], up_to(10), most_padding=64) == [[0]]


def test_padding_costs_no_more_than_another_batch_would() -> None:
    requests = [inputs(50), inputs(47, 44), inputs(46, 40)]
    assert pick(requests, up_to(10_000), most_padding=7) == [[0], [0], [0]]
    requests = [inputs(50), inputs(47, 44), inputs(46, 40)]
    assert pick(requests, up_to(10_000), most_padding=23) == [[0], [0, 1], [0, 1]]


@given(
    st.lists(st.lists(st.integers(1, 600), min_size=1, max_size=20), min_size=1, max_size=6),
    st.integers(1, 3000),
    st.sampled_from([0.0, 4.0, 100.0, 2048.0]),
)
def test_everything_is_done_once_and_nobody_waits_long(
    lengths: list[list[int]], tokens: int, most_padding: float
) -> None:
    requests = {index: inputs(*each) for index, each in enumerate(lengths)}
    done: dict[int, list[int]] = {index: [] for index in requests}
    line = list(requests)
    waited = dict.fromkeys(requests, 0)
    while line:
        left = [requests[index] for index in line]
        batch = pick(left, up_to(tokens), most_padding=most_padding)
        assert batch[0], "the first in line has its turn"
        sizes = [
            lengths[i][place] for i, places in zip(line, batch, strict=True) for place in places
        ]
        assert len(sizes) == 1 or len(sizes) * max(sizes) <= tokens
        assert len(sizes) * max(sizes) - sum(sizes) <= most_padding
        for index, places in zip(line, batch, strict=True):
            done[index] += places
            waited[index] = 0 if places else waited[index] + 1
            assert waited[index] < len(requests)
        line = [index for index in (*line[1:], line[0]) if len(requests[index])]
    assert {index: sorted(places) for index, places in done.items()} == {
        index: list(range(len(each))) for index, each in enumerate(lengths)
    }


def largest(size: BatchSize, slice_s: float, *, longest: int, most_bytes: int = 1 << 40) -> int:
    fits = size.fits(slice_s, most_bytes=most_bytes)
    return next(count for count in range(1, 100_000) if not fits(count + 1, longest))


@pytest.mark.parametrize("slice_s", [0.02, 0.1, 0.5])
def test_a_batch_takes_about_as_long_as_it_may(slice_s: float) -> None:
    size = BatchSize(width=64)
    took_s = 0.0
    for _ in range(60):
        count = largest(size, slice_s, longest=32)
        took_s = 0.004 + count * 32 * 2e-5  # a device with a fixed cost
        size.learn(count, 32, took_s)
    assert slice_s / 2 < took_s < slice_s * 1.5


def test_one_slow_batch_is_soon_forgotten() -> None:
    size = BatchSize(width=64)
    size.learn(4, 32, 9.0)  # compiled its kernels
    size.learn(4, 32, 0.002)
    assert largest(size, 0.5, longest=32) > 20


def test_a_tiny_batch_is_no_guide_for_large_ones() -> None:
    size = BatchSize(width=10**9)
    size.learn(1, 128, 0.084)
    size.learn(1, 1, 0.001)
    assert size.seconds(8, 128) == pytest.approx(8 * 0.084, rel=0.5)


@pytest.mark.parametrize(
    ("fixed_s", "token_s", "fixed_tokens"),
    [(0.005, 0.00065, 7.7), (0.003, 1e-5, 300.0), (0.02, 1e-9, 2048.0), (0.0, 0.001, 4.0)],
    ids=["a CPU", "a GPU", "never full", "nothing fixed"],
)
def test_what_a_batch_costs_by_itself_is_learnt(
    fixed_s: float, token_s: float, fixed_tokens: float
) -> None:
    size = BatchSize(width=10**9)  # so wide that looks at other tokens cost nothing
    assert size.fixed_tokens == 64
    size.learn(1, 64, 9.0)  # compiled its kernels
    for count, length in ((1, 64), (1, 128), (4, 50), (2, 256), (1, 16)) * 3:
        size.learn(count, length, fixed_s + count * length * token_s)
    assert size.fixed_tokens == pytest.approx(fixed_tokens, rel=0.02)
    assert size.seconds(3, 100) == pytest.approx(fixed_s + 300 * token_s, rel=0.2)


@pytest.mark.parametrize(
    "batches",
    [[(4, 32, 0.011), (4, 32, 0.009)] * 5, [(1, 64, 0.02), (1, 300, 0.01)]],
    ids=["all alike", "too few"],
)
def test_a_few_batches_or_such_as_are_alike_tell_nothing_of_it(
    batches: list[tuple[int, int, float]],
) -> None:
    size = BatchSize(width=64)
    for batch in batches:
        size.learn(*batch)
    assert size.fixed_tokens == 64


def test_memory_bounds_a_batch() -> None:
    size = BatchSize(width=64, token_bytes=1000, pair_bytes=10)
    for _ in range(20):
        size.learn(512, 32, 1e-3)
    assert largest(size, 1.0, longest=100, most_bytes=1_000_000) == 5
    assert size.memory_bytes(5, 100) == 5 * 100 * 2000
