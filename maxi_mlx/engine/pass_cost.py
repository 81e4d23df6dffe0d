"""What a pass of a model takes in memory for as long as it lasts, beside weights and caches.

Measured when the model is loaded: activations, logits, and states, which are there as they were and
as they become.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from maxi_mlx.engine.device import transient_bytes

# One is launched before the last one's tokens are read.
_STEPS_UNDER_WAY = 2
# Arrays as wide as the vocabulary that a draw may have at once, in fp32, beside the logits.
_DRAW_ARRAYS = 4
_MEASURED_TOKENS = 8


@dataclass(frozen=True, slots=True)
class PassCost:
    """Bytes of steps for each row, and of a slice for each token."""

    row_bytes: int
    token_bytes: int

    def num_bytes(self, *, num_rows: int, num_tokens: int) -> int:
        """Of so many rows' steps, and a slice of so many tokens."""
        return num_rows * self.row_bytes + num_tokens * self.token_bytes


def measure_pass(
    run: Callable[[mx.array], mx.array], cache: Sequence[Any], *, vocabulary_size: int
) -> PassCost:
    """``run`` reads ids of shape ``(1, N)`` into the cache, which has read one token already, and
    gives logits ``(1, N, V)``, lazily."""

    def step() -> None:
        mx.eval(run(mx.array([[0]])), [entry.state for entry in cache])

    def read() -> None:
        run(mx.zeros((1, _MEASURED_TOKENS), dtype=mx.uint32))
        mx.eval([entry.state for entry in cache])

    step_bytes = transient_bytes(step) + _DRAW_ARRAYS * vocabulary_size * mx.float32.size
    return PassCost(
        row_bytes=_STEPS_UNDER_WAY * step_bytes,
        token_bytes=-(-transient_bytes(read) // _MEASURED_TOKENS),
    )
