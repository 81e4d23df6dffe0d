"""Even draws from 0 to 1 for tokens, by a row's key: the same in numpy and in MLX.

A draw is a hash of key and token, so that those of a few tokens cost no more than these. The hash
is triple32 of Chris Wellons' hash prospector, with half of the key put in between its rounds.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

_ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))
_LAST_SHIFT = 14
_OTHER_HALF = np.uint32(0x9E3779B9)
# 23 bits and a half: a float32 holds them exactly, and neither 0 nor 1 comes out.
_SPARE_BITS = 9
_UNIT = 2.0**-23


def halves(keys: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """``(R, 2)`` keys, which may be consecutive, as two ``(R, 1)`` words without a pattern."""
    nothing = np.zeros((len(keys), 1), dtype=np.uint32)
    first = _scrambled(np, keys[:, :1] ^ _scrambled(np, keys[:, 1:], nothing), nothing)
    return first, _scrambled(np, first ^ _OTHER_HALF, nothing)


def chances(xp: Any, token_ids: Any, first: Any, second: Any) -> Any:
    """Above 0 and below 1, as float32, in the arrays' common shape. All are of uint32."""
    if xp is mx:
        return _chances_by_mlx(token_ids, first, second)
    return _as_chances(np, _scrambled(np, token_ids ^ first, second))


@mx.compile
def _chances_by_mlx(token_ids: mx.array, first: mx.array, second: mx.array) -> mx.array:
    result: mx.array = _as_chances(mx, _scrambled(mx, token_ids ^ first, second))
    return result


def _scrambled(xp: Any, words: Any, second: Any) -> Any:
    for place, (shift, factor) in enumerate(_ROUNDS):
        words = (words ^ (words >> xp.array(shift, dtype=xp.uint32))) * xp.array(
            factor, dtype=xp.uint32
        )
        if place == 0:
            words = words ^ second
    return words ^ (words >> xp.array(_LAST_SHIFT, dtype=xp.uint32))


def _as_chances(xp: Any, words: Any) -> Any:
    return ((words >> xp.array(_SPARE_BITS, dtype=xp.uint32)).astype(xp.float32) + 0.5) * _UNIT
