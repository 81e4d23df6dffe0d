"""What a pass of a model takes in memory for as long as it lasts, beside weights and caches.

Measured when the model is loaded: activations, logits, and states, which are there as they were and
as they become; and what attention holds of each pair of tokens, where it is not computed in tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.base import scaled_dot_product_attention

from maxi_mlx.engine.device import transient_bytes

# One is launched before the last one's tokens are read.
_STEPS_UNDER_WAY = 2
# Arrays as wide as the vocabulary that a draw may have at once, in fp32, beside the logits.
_DRAW_ARRAYS = 4
_MEASURED_TOKENS = 8
_MEASURED_PAIRS = 128  # tokens that look at as many


@dataclass(frozen=True, slots=True)
class PassCost:
    """Bytes of steps for each row, and of a slice for each token and each pair of tokens of which
    one looks at the other."""

    row_bytes: int
    token_bytes: int
    pair_bytes: int

    def num_bytes(self, *, num_rows: int, length: int, slice_tokens: int) -> int:
        """Of so many rows' steps, and a slice of the longest of them, which has ``length``."""
        num_read = min(length, slice_tokens)
        of_slice = num_read * (self.token_bytes + self.pair_bytes * length)
        return num_rows * self.row_bytes + of_slice


def measure_pass(
    model: Callable[..., mx.array],
    cache: Sequence[Any],
    *,
    vocabulary_size: int,
    num_heads: int,
) -> PassCost:
    """``cache`` has read one token already. ``num_heads`` of queries, 0 if nobody knows."""

    def step() -> None:
        mx.eval(model(mx.array([[0]]), cache=cache), [entry.state for entry in cache])

    def read() -> None:
        model(mx.zeros((1, _MEASURED_TOKENS), dtype=mx.uint32), cache=cache)
        mx.eval([entry.state for entry in cache])

    step_bytes = transient_bytes(step) + _DRAW_ARRAYS * vocabulary_size * mx.float32.size
    return PassCost(
        row_bytes=_STEPS_UNDER_WAY * step_bytes,
        token_bytes=-(-transient_bytes(read) // _MEASURED_TOKENS),
        pair_bytes=_pair_bytes(cache, num_heads),
    )


def _pair_bytes(cache: Sequence[Any], num_heads: int) -> int:
    """Of attention over one layer's cache, as the model's would be: for so many pairs, and for four
    times as many, of which twice as many tokens have twice what each of them takes."""
    entry = next((entry for entry in cache if getattr(entry, "keys", None) is not None), None)
    if entry is None or not num_heads:
        return 0
    few, many = (_attention_bytes(entry, num_heads, n * _MEASURED_PAIRS) for n in (1, 2))
    return max(-(-(many - 2 * few) // (2 * _MEASURED_PAIRS**2)), 0)


def _attention_bytes(entry: Any, num_heads: int, num_tokens: int) -> int:
    bits, group_size = getattr(entry, "bits", None), getattr(entry, "group_size", None)
    is_quantised = bits is not None
    head, value_head = (
        state[0].shape[-1] * 32 // bits if is_quantised else state.shape[-1]
        for state in (entry.keys, entry.values)
    )
    like = entry.keys[1] if is_quantised else entry.keys  # scales are of the model's type
    num_shared = like.shape[1]
    if num_heads % num_shared:
        return 0

    def states(size: int) -> Any:
        plain = mx.zeros((1, num_shared, num_tokens, size), dtype=like.dtype)
        return mx.quantize(plain, group_size=group_size, bits=bits) if is_quantised else plain

    keys, values = states(head), states(value_head)
    queries = mx.zeros((1, num_heads, num_tokens, head), dtype=like.dtype)
    mx.eval(queries, keys, values)
    return transient_bytes(
        lambda: mx.eval(
            scaled_dot_product_attention(queries, keys, values, entry, scale=1.0, mask="causal")
        )
    )
