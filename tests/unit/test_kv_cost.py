"""What rows cost, alone, in a batch and in several."""

from __future__ import annotations

from maxi_mlx.engine.kv_cost import KVCost, Part

PLAIN = KVCost((Part(10, 0, None),))


def test_caches_grow_in_steps() -> None:
    assert [PLAIN.row_bytes(n) for n in (1, 256, 257)] == [2560, 2560, 5120]


def test_windows_and_states_stop_growing() -> None:
    cost = KVCost((Part(10, 0, 512), Part(0, 700, None)))
    assert [cost.row_bytes(n) for n in (100, 512, 100_000)] == [3260, 5820, 5820]


def test_a_batch_is_as_long_as_its_longest() -> None:
    assert PLAIN.batch_bytes([]) == 0
    assert PLAIN.batch_bytes([1, 1000, 5]) == 3 * 10_240
    assert PLAIN.padding_bytes([1, 1000, 5]) == 2 * (10_240 - 2560)
    assert PLAIN.padding_bytes([200, 201]) == 0


def test_batches_are_cut_where_padding_grows() -> None:
    lengths = [1, 1000, 5, 990]
    assert PLAIN.batches_bytes(lengths, most_padding_bytes=1 << 30) == 4 * 10_240
    assert PLAIN.batches_bytes(lengths, most_padding_bytes=0) == 2 * 2560 + 2 * 10_240
    assert PLAIN.batches_bytes([], most_padding_bytes=0) == 0
