"""Penalties and bias, for all rows of a batch that have any, in one go.

Repetition counts prompt and answer (Keskar et al. 2019: divide a positive logit, multiply a
negative one); presence and frequency count the answer (OpenAI's definition).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.array_module import array_module, column
from maxi_mlx.engine.row import Row


class LogitsEdits:
    """What the edited rows of a batch have said so far, a line for each: which tokens (``seen``)
    and how often in the answer (``counts``). A table that none of them needs isn't there.

    Lines change with their rows' tokens; where rows come or go, there is a new object.
    """

    def __init__(
        self,
        xp: Any = None,
        rows: Sequence[Row] = (),
        *,
        seen: Any = None,
        counts: Any = None,
        is_counted: Sequence[bool] = (),
    ) -> None:
        """``rows``: the batch's, edited or not. ``is_counted``: a line holds the next input.
        ``xp``, the arrays' library, is chosen when the first rows join."""
        self.xp = xp
        self._rows = list(rows)
        self._places = [i for i, row in enumerate(rows) if row.sampling.changes_logits]
        self._seen, self._counts, self._is_counted = seen, counts, list(is_counted)
        if not self._places:
            return
        params = [rows[i].sampling for i in self._places]
        self._index = xp.array(self._places)
        self._lines = xp.arange(len(params))
        self._repetition = column(xp, [p.repetition_penalty for p in params])
        self._presence = column(xp, [p.presence_penalty for p in params])
        self._frequency = column(xp, [p.frequency_penalty for p in params])
        biases = [(i, *bias) for i, p in enumerate(params) for bias in p.logit_bias]
        self._biases = [xp.array(part) for part in zip(*biases, strict=True)]

    def __len__(self) -> int:
        return len(self._places)

    def joined(self, rows: Sequence[Row], *, vocabulary_size: int) -> LogitsEdits:
        """With more rows, whose lines begin with the tokens that they have."""
        self.xp = self.xp or array_module(vocabulary_size)
        new = [row for row in rows if row.sampling.changes_logits]
        seen, counts = self._seen, self._counts
        if any(row.sampling.repetition_penalty != 1 for row in new) or (new and seen is not None):
            seen = self._lengthened(seen, [_seen_line(row, vocabulary_size) for row in new])
        if any(row.sampling.counts_tokens for row in new) or (new and counts is not None):
            counts = self._lengthened(counts, [_count_line(row, vocabulary_size) for row in new])
        return LogitsEdits(
            self.xp,
            [*self._rows, *rows],
            seen=seen,
            counts=counts,
            is_counted=[*self._is_counted, *[True] * len(new)],
        )

    def kept(self, places: Sequence[int]) -> LogitsEdits:
        """With these of the batch's rows alone."""
        rows = [self._rows[i] for i in places]
        line_of = {place: line for line, place in enumerate(self._places)}
        lines = [line_of[i] for i in places if i in line_of]
        needs_seen = any(row.sampling.repetition_penalty != 1 for row in rows)
        needs_counts = any(row.sampling.counts_tokens for row in rows)
        return LogitsEdits(
            self.xp,
            rows,
            seen=self._shortened(self._seen, lines) if needs_seen else None,
            counts=self._shortened(self._counts, lines) if needs_counts else None,
            is_counted=[self._is_counted[line] for line in lines],
        )

    def apply(self, values: Any, inputs: Any) -> Any:
        """``(B, V)`` logits in, the same shape out. ``inputs``, ``(B,)``, are the tokens that
        these logits follow, which may be on the device alone."""
        xp = self.xp
        self._count(inputs[self._index])
        edited = values[self._index]
        if self._seen is not None:
            factor = 1 + self._seen * (self._repetition - 1)
            edited = xp.maximum(edited, 0) / factor + xp.minimum(edited, 0) * factor
        if self._counts is not None:
            edited = edited - self._presence * (self._counts > 0) - self._frequency * self._counts
        if self._biases:
            lines, token_ids, biases = self._biases
            edited[lines, token_ids] = edited[lines, token_ids] + biases
        if len(self._places) == len(self._rows):
            return edited
        # A copy: log-probabilities are those of the logits as they were.
        values = xp.array(values)
        values[self._index] = edited
        return values

    def _count(self, tokens: Any) -> None:
        xp = self.xp
        if self._seen is not None:
            self._seen[self._lines, tokens] = True
        if self._counts is not None:
            more = xp.array([float(not is_counted) for is_counted in self._is_counted])
            self._counts[self._lines, tokens] = self._counts[self._lines, tokens] + more
        self._is_counted = [False] * len(self)

    def _lengthened(self, table: Any, lines: list[NDArray[Any]]) -> Any:
        xp = self.xp
        added = xp.array(np.stack(lines))
        if len(self):
            if table is None:
                table = xp.zeros((len(self), added.shape[1]), dtype=added.dtype)
            added = xp.concatenate([table, added])
        return _computed(added)

    def _shortened(self, table: Any, lines: list[int]) -> Any:
        return _computed(table[self.xp.array(lines)])


def _computed(table: Any) -> Any:
    """A lazy slice would hold the whole old table in memory."""
    if isinstance(table, mx.array):
        mx.eval(table)
    return table


def _seen_line(row: Row, vocabulary_size: int) -> NDArray[np.bool_]:
    line = np.zeros(vocabulary_size, dtype=np.bool_)
    if row.sampling.repetition_penalty != 1:
        token_ids = np.array(row.token_ids)
        line[token_ids[token_ids < vocabulary_size]] = True  # an image's are none of the vocabulary
    return line


def _count_line(row: Row, vocabulary_size: int) -> NDArray[np.float32]:
    """Whole numbers as float32, which is exact up to 16 million."""
    answer = row.token_ids[row.num_prompt_tokens :] if row.sampling.counts_tokens else []
    counts = np.bincount(np.array(answer, dtype=np.int64), minlength=vocabulary_size)
    return counts.astype(np.float32)
