"""Finds text that goes round in circles, as a speech model writes where it hears nothing. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

# Text of one language compresses to about half; what compresses better repeats itself.
MAX_COMPRESSION = 2.4
_LEAST_ROUNDS = 4


def compression_ratio(text: str) -> float:
    """Bytes of the text to bytes once compressed; 0 for no text."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data)) if data else 0.0


def without_loop(tokens: Sequence[int]) -> list[int]:
    """The tokens up to the end of the first round of the loop that they end in."""
    count = len(tokens)
    for period in range(1, count // _LEAST_ROUNDS + 1):
        start = count - period
        while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
            start -= 1
        if count - start >= period * _LEAST_ROUNDS:
            return list(tokens[: start + period])
    return list(tokens)
