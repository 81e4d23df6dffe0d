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
    from maxi_mlx.engine.row import Row

_NEVER = -1e30  # finite, so that a row with nothing but this still has a softmax


class BatchSampler:
    """The rows' sampling settings as arrays; built anew when the rows of a batch change.

    ``places`` are the rows' places in their texts of the token that is drawn next. They are
    counted on the device, ahead of the host, which reads tokens one step late.
    """

    def __init__(self, rows: Sequence[Row], places: Sequence[int]) -> None:
        params = [row.sampling for row in rows]
        self._all_greedy = all(p.temperature == 0 for p in params)
        self._cuts_tail = any(p.top_p < 1 or p.top_k > 0 for p in params)
        self._has_min_p = any(p.min_p > 0 for p in params)

        def column(values: Sequence[float]) -> mx.array:
            return mx.array(list(values), dtype=mx.float32)[:, None]

        self._temperature = column([p.temperature for p in params])
        self._top_p = column([p.top_p for p in params])
        self._top_k = mx.array([p.top_k or 2**30 for p in params], dtype=mx.int32)[:, None]
        self._min_p = column([p.min_p for p in params])
        self._keys = mx.array([row.key for row in rows], dtype=mx.uint32)
        self._places = mx.array(list(places), dtype=mx.uint32)

    def draw(self, logits: mx.array) -> mx.array:
        places = self._places
        self._places = places + 1
        greedy = mx.argmax(logits, axis=-1)
        if self._all_greedy:
            return greedy
        scaled = logits.astype(mx.float32) / mx.maximum(self._temperature, 1e-6)
        if self._cuts_tail:
            scaled = self._cut_tail(scaled)
        if self._has_min_p:
            peak = mx.max(scaled, axis=-1, keepdims=True)
            scaled = mx.where(scaled < peak + mx.log(self._min_p), _NEVER, scaled)
        keys = mx.stack([self._keys[:, 0], self._keys[:, 1] + places], axis=1)
        drawn = mx.vmap(_categorical)(scaled, keys)
        return mx.where(self._temperature[:, 0] > 0, drawn, greedy)

    def _cut_tail(self, scaled: mx.array) -> mx.array:
        """Top-k, then top-p among those left; always keeps the likeliest token."""
        order = mx.argsort(-scaled, axis=-1)
        ordered = mx.take_along_axis(scaled, order, axis=-1)
        ranks = mx.arange(scaled.shape[-1])[None]
        ordered = mx.where(ranks < self._top_k, ordered, _NEVER)
        probabilities = mx.softmax(ordered, axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # A rounded sum may reach 1 early: a row without top-p keeps all.
        keep = (before < self._top_p) | (self._top_p >= 1)
        ordered = mx.where(keep, ordered, _NEVER)
        return mx.put_along_axis(mx.zeros_like(scaled), order, ordered, axis=-1)


def _categorical(logits: mx.array, key: mx.array) -> mx.array:
    return mx.random.categorical(logits, key=key)


class LogitsEdit:
    """One row's penalties and bias. Rows without either have none, and cost nothing.

    Repetition counts prompt and answer (Keskar et al. 2019: divide a positive logit, multiply a
    negative one); presence and frequency count the answer (OpenAI's definition).
    """

    def __init__(self, row: Row, prompt_ids: Sequence[int], vocabulary_size: int) -> None:
        self._params = row.sampling
        self._bias: mx.array | None = None
        if row.sampling.logit_bias:
            ids, values = zip(*row.sampling.logit_bias, strict=True)
            self._bias = mx.zeros((vocabulary_size,)).at[mx.array(ids)].add(mx.array(values))
        self._counts = mx.zeros((vocabulary_size,))
        self._seen = mx.zeros((vocabulary_size,), dtype=mx.bool_)
        if row.sampling.repetition_penalty != 1.0:
            self._seen[mx.array(list(prompt_ids))] = True

    def count(self, token: mx.array) -> None:
        """Takes one generated token, shape ``(1,)``, still on the device."""
        if self._params.has_penalties:
            self._counts = self._counts.at[token].add(1.0)

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
