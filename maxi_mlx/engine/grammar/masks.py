"""Which tokens may come next, for all constrained rows of a step: one bit a token.

Reading the grammars takes microseconds a row and runs without Python's lock, so that the device
thread does it itself while the device computes the logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llguidance import LLExecutor
from numpy.typing import NDArray

from maxi_mlx.engine.grammar.matcher import Matcher

MaskWords = NDArray[np.uint32]

# Fewer rows are read sooner than threads are woken.
_LEAST_FOR_THREADS = 4


class MaskWriter:
    """Owns llguidance's threads."""

    def __init__(self, num_threads: int | None = None) -> None:
        self._num_threads = num_threads
        self._executor: LLExecutor | None = None

    def write(self, rows: Sequence[tuple[Matcher, int]]) -> MaskWords:
        """``(R, ceil(V / 32))``: bit ``i % 32`` of word ``i // 32`` says that token ``i`` may come.

        ``rows``, all of one model: matchers, and how many tokens each may draw yet. A matcher whose
        grammar became too much work says so in its ``fault`` afterwards.
        """
        tokenizer = rows[0][0].tokenizer
        # A placeholder for an end may lie beyond the vocabulary, in a word of its own.
        masks = np.zeros((len(rows), -(-tokenizer.tokens.vocab_size // 32)), dtype=np.uint32)
        asked = []
        for i, (matcher, num_left) in enumerate(rows):
            forced = matcher.forced(num_left)
            if forced is None:
                asked.append((matcher.state, i))
            else:
                masks[i, forced // 32] = np.uint32(1 << forced % 32)
        row_bytes = masks.shape[1] * masks.itemsize
        if len(asked) >= _LEAST_FOR_THREADS:
            self._executor = self._executor or LLExecutor(self._num_threads)
            self._executor.unsafe_compute_mask_ptr(asked, masks.ctypes.data, row_bytes, len(rows))
        else:
            for state, i in asked:
                state.unsafe_compute_mask_ptr(masks.ctypes.data + i * row_bytes, row_bytes)
        return masks[:, : -(-tokenizer.size // 32)]
