"""Which array library the sampler's arithmetic runs in: MLX's or numpy's.

The two share the functions that it uses, so that it is written once, for either.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from maxi_mlx.engine.device import describe

# Below this many tokens, going ahead while the logits are computed is worth more than numpy.
_MANY_TOKENS = 16384


def array_module(vocabulary_size: int) -> Any:
    """MLX on a GPU; numpy where MLX runs on the CPU, and the vocabulary isn't a toy's.

    There, numpy's exp and sort are some twenty times faster than MLX's, and little is lost by
    waiting for the logits: the processor that would go ahead is the one that computes them.
    """
    return np if _runs_on_cpu() and vocabulary_size >= _MANY_TOKENS else mx


@functools.cache
def _runs_on_cpu() -> bool:
    return describe().backend == "cpu"


def evaluated(xp: Any, arrays: Sequence[mx.array]) -> list[Any]:
    """MLX's arrays as ``xp``'s: themselves, still lazy, or numpy's view of what they hold."""
    if xp is mx:
        return list(arrays)
    mx.eval(*arrays)  # all at once; numpy would ask for one after the other
    return [np.asarray(array) for array in arrays]


def column(xp: Any, values: Sequence[float]) -> Any:
    """One number a row, ``(R, 1)``."""
    return xp.array(np.array(values, dtype=np.float32)[:, None])
