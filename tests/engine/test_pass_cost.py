"""What a pass takes in memory is foretold, for every form of cache."""

from __future__ import annotations

import gc

import mlx.core as mx
import pytest

from maxi_mlx.engine.batch_cache import evaluate
from maxi_mlx.engine.device import transient_bytes
from maxi_mlx.engine.pass_cost import PassCost
from tests.engine.conftest import LoadTiny
from tests.engine.test_batch import FAMILIES


def foretold(cost: PassCost, num_tokens: int, depth: int) -> int:
    """The least memory in which a slice may have so many tokens."""
    low, high = 0, 2**40
    while low < high:
        middle = (low + high) // 2
        fits = cost.most_tokens(middle, depth=depth, most_tokens=num_tokens) >= num_tokens
        low, high = (low, middle) if fits else (middle + 1, high)
    return low


@pytest.mark.parametrize("depth", [1, 300])
@pytest.mark.parametrize("num_tokens", [48, 128, 256, 500])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_slice_takes_no_more_than_was_foretold(
    family: str, num_tokens: int, depth: int, load_tiny: LoadTiny
) -> None:
    model = load_tiny(family)
    cache = model.new_cache()
    model.model(mx.zeros((1, depth), dtype=mx.uint32), cache=cache)
    evaluate(cache)
    gc.collect()

    def read() -> None:
        model.model(mx.zeros((1, num_tokens), dtype=mx.uint32), cache=cache)
        evaluate(cache)

    taken_bytes = transient_bytes(read)
    grown_bytes = model.kv_cost.row_bytes(depth + num_tokens)
    copied_bytes = model.kv_cost.copy_bytes(grown_bytes)
    assert taken_bytes <= foretold(model.pass_cost, num_tokens, depth) + grown_bytes + copied_bytes
