"""What a pass of a model takes in memory for as long as it lasts, beside weights and caches.

And for how long. Measured when the model is loaded: activations, and states, which are there as
they were and as they become; and what is held of each pair of tokens, by attention where it is not
computed in tiles, and by the scans of state-space models.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.base import scaled_dot_product_attention

from maxi_mlx.engine.device import transient_bytes
from maxi_mlx.engine.kv_cost import leaves
from maxi_mlx.engine.loading import Steps

logger = logging.getLogger(__name__)

# One is launched before the last one's tokens are read.
_STEPS_UNDER_WAY = 2
# Arrays as wide as the vocabulary that a draw may have at once, in fp32, the logits among them.
_DRAW_ARRAYS = 5
_MEASURED_TOKENS = 8
_MEASURED_PAIRS = 32  # tokens that look at as many
# MLX allocates ahead of what it computes, as far as it gets: the same pass takes more and less, of
# twelve large ones the highest up to 28 % more than the lowest.
_SPREAD = 4 / 3
# mlx-lm's scans are computed in pieces of so many tokens, in which each is held with each.
_SCAN_TOKENS = 256
# A slice that is always possible.
_LEAST_TOKENS = 32


@dataclass(frozen=True, slots=True)
class PassCost:
    """Bytes: of steps for each row; of a slice whatever it reads, for each token, for each pair of
    tokens of which one looks at the other, and for each pair within a piece of a scan. ``seconds``
    has the tokens and times of the slices that were measured: small ones, on hardly any text."""

    row_bytes: int
    slice_bytes: int
    token_bytes: int
    pair_bytes: int
    scan_bytes: int
    seconds: tuple[tuple[int, float], ...]

    def least_bytes(self, *, num_rows: int, prompt_tokens: int) -> int:
        """Of so many rows' steps, and the smallest slice of a prompt, if any is read."""
        of_steps = num_rows * self.row_bytes
        if not prompt_tokens:
            return of_steps
        num_read = min(prompt_tokens, _LEAST_TOKENS)
        of_token = self.token_bytes + self.pair_bytes * prompt_tokens + self.scan_bytes * num_read
        return of_steps + self.slice_bytes + num_read * of_token

    def most_tokens(self, left_bytes: int, *, depth: int, most_tokens: int) -> int:
        """The largest slice that so much memory is enough for, ``depth`` tokens into a prompt."""
        of_token = max(self.token_bytes + self.pair_bytes * (depth + most_tokens), 1)
        left_bytes = max(left_bytes - self.slice_bytes, 0)
        fitting = left_bytes // (of_token + self.scan_bytes * _SCAN_TOKENS)
        if self.scan_bytes and fitting < _SCAN_TOKENS:  # one piece: of_token * n + scan_bytes * n²
            root = math.isqrt(of_token**2 + 4 * self.scan_bytes * left_bytes)
            fitting = min((root - of_token) // (2 * self.scan_bytes), _SCAN_TOKENS)
        return min(max(fitting, _LEAST_TOKENS), most_tokens)


def measure_pass(
    model: Callable[..., mx.array],
    cache: Sequence[Any],
    *,
    vocabulary_size: int,
    num_heads: int,
) -> Steps[PassCost]:
    """``cache`` has read one token already. ``num_heads`` of queries, 0 if nobody knows."""

    seconds: dict[int, float] = {}

    def read(num_tokens: int, num_times: int) -> Steps[int]:
        def work() -> None:
            started = time.perf_counter()
            model(mx.zeros((1, num_tokens), dtype=mx.uint32), cache=cache)
            mx.eval([entry.state for entry in cache])
            taken_s = time.perf_counter() - started
            seconds[num_tokens] = min(seconds.get(num_tokens, taken_s), taken_s)

        most_bytes = 0
        for _ in range(num_times):
            most_bytes = max(most_bytes, transient_bytes(work))
            yield None
        return most_bytes

    one_bytes = yield from read(1, 2)
    few_bytes = yield from read(_MEASURED_TOKENS, 2)
    # What is fixed is in both, so that the spread of the whole is not for each token.
    token_bytes = _spread(max(few_bytes - one_bytes, 0) / (_MEASURED_TOKENS - 1))
    one_bytes = _spread(one_bytes)
    pair_bytes = yield from _pair_bytes(cache, num_heads)
    scan_bytes = 0
    if _has_scan(model):
        piece_bytes = _spread((yield from read(_SCAN_TOKENS, 1)))
        of_pairs = piece_bytes - one_bytes - _SCAN_TOKENS * token_bytes
        scan_bytes = max(-(-of_pairs // _SCAN_TOKENS**2), 0)
    draw_bytes = _DRAW_ARRAYS * vocabulary_size * mx.float32.size
    return PassCost(
        row_bytes=_STEPS_UNDER_WAY * (one_bytes + draw_bytes),
        slice_bytes=one_bytes,
        token_bytes=token_bytes,
        pair_bytes=pair_bytes,
        scan_bytes=scan_bytes,
        # Of a step, kernels are others than of a slice.
        seconds=tuple((tokens, taken_s) for tokens, taken_s in seconds.items() if tokens > 1),
    )


def _spread(num_bytes: float) -> int:
    return math.ceil(num_bytes * _SPREAD)


def _has_scan(model: Any) -> bool:
    """Whether it has layers of state-space models, by what mlx-lm's file of the model imports."""
    return hasattr(sys.modules.get(type(model).__module__), "ssm_update")


def _pair_bytes(cache: Sequence[Any], num_heads: int) -> Steps[int]:
    """Of attention over one layer's cache, as the model's would be: for so many pairs, and for four
    times as many, of which twice as many tokens have twice what each of them takes."""
    entry = next((leaf for leaf in leaves(cache) if getattr(leaf, "keys", None) is not None), None)
    if entry is None:
        return 0
    try:
        few_bytes = _attention_bytes(entry, num_heads, _MEASURED_PAIRS)
        yield None
        many_bytes = _attention_bytes(entry, num_heads, 2 * _MEASURED_PAIRS)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        # Of a form that we don't know: no reason not to load the model.
        logger.info("what attention holds of a %s can't be measured: %s", type(entry), error)
        return 0
    pair_bytes = -(-(many_bytes - 2 * few_bytes) // (2 * _MEASURED_PAIRS**2))
    # A pair has a number in each head, where it is held at all: less is rounding of buffers.
    return pair_bytes if pair_bytes > num_heads else 0


def _attention_bytes(entry: Any, num_heads: int, num_tokens: int) -> int:
    bits, group_size = getattr(entry, "bits", None), getattr(entry, "group_size", None)
    is_quantised = bits is not None
    head, value_head = (
        state[0].shape[-1] * 32 // bits if is_quantised else state.shape[-1]
        for state in (entry.keys, entry.values)
    )
    like = entry.keys[1] if is_quantised else entry.keys  # scales are of the model's type
    num_shared = like.shape[1]
    num_heads = num_heads or num_shared

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
