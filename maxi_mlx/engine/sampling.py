"""Draws the next token of every row of a batch in one go.

Shapes: logits ``(B, V)`` float, everything per row ``(B, 1)``; the result is ``(B,)`` uint32.
Order, as in OpenAI's and Hugging Face's definitions: penalties and bias on the logits, then
temperature, top-k, top-p and min-p, then the draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mlx.core as mx

if TYPE_CHECKING:
    from maxi_mlx.engine.row import Row, RowSampling

_NEVER = -1e30  # finite, so that a row with nothing but this still has a softmax


class BatchSampler:
    """The rows' sampling settings as arrays; built anew when the rows of a batch change.

    ``places`` are the rows' places in their texts of the token that is drawn next. They are
    counted on the device, ahead of the host, which reads tokens one step late.
    """

    def __init__(self, rows: Sequence[Row], places: Sequence[int]) -> None:
        params = [row.sampling for row in rows]
        self._all_greedy = all(p.temperature == 0 for p in params)
        self._has_min_p = any(p.min_p > 0 for p in params)

        def column(values: Sequence[float]) -> mx.array:
            return mx.array(list(values), dtype=mx.float32)[:, None]

        self._is_drawn = mx.array([p.temperature > 0 for p in params])
        self._temperature = mx.maximum(column([p.temperature for p in params]), 1e-6)
        self._log_min_p = mx.log(column([p.min_p for p in params]))
        self._tail = _TailCut.of(params)
        self._keys = mx.array([row.key for row in rows], dtype=mx.uint32)
        self._places = mx.array(list(places), dtype=mx.uint32)

    def draw(self, logits: mx.array) -> mx.array:
        greedy = mx.argmax(logits, axis=-1)
        if self._all_greedy:
            return greedy
        places = self._places
        self._places = places + 1
        scaled = logits.astype(mx.float32) / self._temperature
        if self._tail is not None:
            scaled = self._tail.cut(scaled)
        if self._has_min_p:
            peak = mx.max(scaled, axis=-1, keepdims=True)
            scaled = mx.where(scaled < peak + self._log_min_p, _NEVER, scaled)
        keys = mx.stack([self._keys[:, 0], self._keys[:, 1] + places], axis=1)
        drawn = mx.vmap(_categorical)(scaled, keys)
        return mx.where(self._is_drawn, drawn, greedy)


class _TailCut:
    """Top-k and then top-p, for the rows that have either: the others are not sorted.

    Where each of them has a top-k, just the largest of those are sorted, not the vocabulary.
    """

    def __init__(self, rows: Sequence[int], top_p: Sequence[float], top_k: Sequence[int]) -> None:
        self._rows = mx.array(list(rows))
        self._top_p = mx.array(list(top_p), dtype=mx.float32)[:, None]
        self._top_k = mx.array([k or 2**30 for k in top_k], dtype=mx.int32)[:, None]
        self._num_kept = max(top_k) if all(top_k) else None

    @classmethod
    def of(cls, params: Sequence[RowSampling]) -> _TailCut | None:
        rows = [i for i, p in enumerate(params) if p.temperature and (p.top_p < 1 or p.top_k)]
        if not rows:
            return None
        return cls(rows, [params[i].top_p for i in rows], [params[i].top_k for i in rows])

    def cut(self, scaled: mx.array) -> mx.array:
        rows = scaled[self._rows]
        size = rows.shape[-1]
        if self._num_kept is not None and self._num_kept < size:
            kept = mx.argpartition(-rows, self._num_kept, axis=-1)[:, : self._num_kept]
            values = mx.take_along_axis(rows, kept, axis=-1)
            order = mx.argsort(-values, axis=-1)
            kept = mx.take_along_axis(kept, order, axis=-1)
            values = mx.take_along_axis(values, order, axis=-1)
        else:
            kept = mx.argsort(-rows, axis=-1)
            values = mx.take_along_axis(rows, kept, axis=-1)
        values = mx.where(mx.arange(values.shape[-1])[None] < self._top_k, values, _NEVER)
        probabilities = mx.softmax(values, axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # A rounded sum may reach 1 early: a row without top-p keeps all.
        values = mx.where((before < self._top_p) | (self._top_p >= 1), values, _NEVER)
        cut = mx.put_along_axis(mx.full(rows.shape, _NEVER), kept, values, axis=-1)
        scaled[self._rows] = cut
        return scaled


def _categorical(logits: mx.array, key: mx.array) -> mx.array:
    return mx.random.categorical(logits, key=key)


class LogitsEdit:
    """One row's penalties and bias. Rows without either have none, and cost nothing.

    Repetition counts prompt and answer (Keskar et al. 2019: divide a positive logit, multiply a
    negative one); presence and frequency count the answer (OpenAI's definition).
    """

    def __init__(self, row: Row, vocabulary_size: int) -> None:
        self._params = row.sampling
        self._bias: mx.array | None = None
        if row.sampling.logit_bias:
            ids, values = zip(*row.sampling.logit_bias, strict=True)
            self._bias = mx.zeros((vocabulary_size,)).at[mx.array(ids)].add(mx.array(values))
        self._counts = mx.zeros((vocabulary_size,))
        self._seen = mx.zeros((vocabulary_size,), dtype=mx.bool_)
        if row.sampling.repetition_penalty != 1.0:
            self._seen[mx.array(row.token_ids[: row.num_prompt_tokens])] = True
        if row.num_generated:  # a row that goes on after an interruption
            self.count(mx.array(row.token_ids[row.num_prompt_tokens :]))

    def count(self, tokens: mx.array) -> None:
        """Takes generated tokens, shape ``(N,)``, which may still be on the device alone."""
        if self._params.has_penalties:
            self._counts = self._counts.at[tokens].add(1.0)

    def apply(self, logits: mx.array) -> mx.array:
        """``(V,)`` logits in, the same shape out."""
        params = self._params
        if params.repetition_penalty != 1.0:
            factor = params.repetition_penalty
            penalised = mx.where(logits > 0, logits / factor, logits * factor)
            logits = mx.where(self._seen | (self._counts > 0), penalised, logits)
        if params.presence_penalty or params.frequency_penalty:
            logits = logits - params.presence_penalty * (self._counts > 0)
            logits = logits - params.frequency_penalty * self._counts
        return logits if self._bias is None else logits + self._bias
