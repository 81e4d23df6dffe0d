"""Answers that decode together: one step is one token for each of them.

    step k:   run the model on the tokens drawn in step k-1, draw the next, start computing;
              then read the tokens of step k-1, which are done, and hand them out

A row alone keeps its plain cache; company is merged into mlx-lm's batched caches, row by row, and
the last one left gets a plain cache back. A model whose caches can't be merged gets one batch a
row. Lives on the device thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx

from maxi_mlx.engine.mailbox import TokenScores
from maxi_mlx.engine.row import Row
from maxi_mlx.engine.sampling import BatchSampler, LogitsEdit


def can_batch(cache: Sequence[Any]) -> bool:
    """Whether rows with such caches can decode in one batch."""
    return all(
        can_batch(entry.caches) if hasattr(entry, "caches") else hasattr(entry, "merge")
        for entry in cache
    )


@dataclass(slots=True)
class _Scores:
    """Log-probabilities of one step, still on the device, for the rows that asked."""

    rows: list[Row]
    chosen: mx.array  # (R,)
    top_ids: mx.array  # (R, K), best first
    top_logprobs: mx.array  # (R, K)

    @property
    def arrays(self) -> list[mx.array]:
        return [self.chosen, self.top_ids, self.top_logprobs]

    def read(self) -> dict[Row, TokenScores]:
        columns = [cast(list[Any], array.tolist()) for array in self.arrays]
        scores = {}
        for row, chosen, ids, values in zip(self.rows, *columns, strict=True):
            num_top = row.top_logprobs or 0
            scores[row] = TokenScores(chosen, tuple(ids[:num_top]), tuple(values[:num_top]))
        return scores


def merge_caches(caches: Sequence[list[Any]]) -> list[Any]:
    """Plain caches of several rows as one batched cache, layer by layer."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A row that may start: its prompt, less the last token, is in ``cache``."""

    row: Row
    cache: list[Any]
    prompt_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class StepToken:
    """A token that the host now knows."""

    row: Row
    token_id: int
    scores: TokenScores | None


class DecodeBatch:
    """The running rows of one model. ``rows``, ``_edits`` and every cache share one order."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.rows: list[Row] = []
        self._cache: list[Any] = []
        self._merged = False
        self._edits: list[LogitsEdit | None] = []
        self._sampler: BatchSampler | None = None  # None: the rows have changed
        self._inputs: mx.array | None = None  # (B,) the tokens that the next step feeds
        self._fresh: set[Row] = set()  # rows whose next input is their prompt's last token
        self._scores: _Scores | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cache_bytes(self) -> int:
        return sum(int(entry.nbytes) for entry in self._cache if not entry.empty())

    def join(self, newcomers: Sequence[Newcomer], *, vocabulary_size: int) -> None:
        """Takes rows; all that come together cost one copy of the batch's caches."""
        caches = [newcomer.cache for newcomer in newcomers]
        tokens = mx.array([newcomer.prompt_ids[-1] for newcomer in newcomers], dtype=mx.uint32)
        if self._inputs is None:
            self._merged = len(newcomers) > 1
            self._cache = merge_caches(caches) if self._merged else caches[0]
            self._inputs = tokens
        else:
            if not self._merged:
                self._cache, self._merged = merge_caches([self._cache]), True
            for mine, theirs in zip(self._cache, merge_caches(caches), strict=True):
                mine.extend(theirs)
            self._inputs = mx.concatenate([self._inputs, tokens])
        for newcomer in newcomers:
            row = newcomer.row
            self.rows.append(row)
            self._edits.append(
                LogitsEdit(row, newcomer.prompt_ids, vocabulary_size)
                if row.sampling.changes_logits
                else None
            )
            self._fresh.add(row)
        self._sampler = None

    def leave(self, leaving: set[Row]) -> None:
        """Drops rows and frees their share of the caches."""
        keep = [i for i, row in enumerate(self.rows) if row not in leaving]
        if len(keep) == len(self.rows):
            return
        self._fresh -= leaving
        self.rows = [self.rows[i] for i in keep]
        self._edits = [self._edits[i] for i in keep]
        self._sampler = None
        if not keep:
            self._cache, self._inputs, self._scores = [], None, None
            return
        assert self._inputs is not None
        self._inputs = self._inputs[mx.array(keep)]
        if len(keep) == 1:
            self._cache = [entry.extract(keep[0]) for entry in self._cache]
            self._merged = False
        else:
            for entry in self._cache:
                entry.filter(keep)
        # Lazy slices would hold the whole old batch in memory.
        mx.eval([self._inputs, *(entry.state for entry in self._cache)])

    def step(self) -> list[StepToken]:
        """Runs the model once. The tokens returned were drawn one step before."""
        assert self._inputs is not None
        inputs, fresh, scores = self._inputs, self._fresh, self._scores
        if self._sampler is None:
            self._sampler = self._make_sampler()
        logits = self._model(inputs[:, None], cache=self._cache)[:, -1, :]
        drawn = self._sampler.draw(self._edited(logits, inputs))
        self._scores = self._score(logits, drawn)
        self._inputs, self._fresh = drawn, set()
        pending = [drawn] if self._scores is None else [drawn, *self._scores.arrays]
        mx.async_eval(pending)  # type: ignore[no-untyped-call]

        known = scores.read() if scores is not None else {}
        return [
            StepToken(row, token_id, known.get(row))
            for row, token_id in zip(self.rows, cast(list[int], inputs.tolist()), strict=True)
            if row not in fresh
        ]

    def _make_sampler(self) -> BatchSampler:
        # A row under way has one drawn token that the host has not counted yet.
        places = [row.num_generated + (row not in self._fresh) for row in self.rows]
        return BatchSampler(self.rows, places)

    def _edited(self, logits: mx.array, inputs: mx.array) -> mx.array:
        """Penalties and bias, on the rows that have any."""
        if not any(self._edits):
            return logits
        edited = []
        for i, (row, edit) in enumerate(zip(self.rows, self._edits, strict=True)):
            if edit is None:
                edited.append(logits[i])
                continue
            if row not in self._fresh:
                edit.count(inputs[i : i + 1])
            edited.append(edit.apply(logits[i]))
        return mx.stack(edited)

    def _score(self, logits: mx.array, drawn: mx.array) -> _Scores | None:
        """Log-probabilities by the model's own logits, before penalties and temperature."""
        asking = [i for i, row in enumerate(self.rows) if row.top_logprobs is not None]
        if not asking:
            return None
        index = mx.array(asking)
        values = logits[index].astype(mx.float32)
        values = values - mx.logsumexp(values, axis=-1, keepdims=True)
        chosen = mx.take_along_axis(values, drawn[index][:, None], axis=-1)[:, 0]
        num_top = min(max(self.rows[i].top_logprobs or 0 for i in asking), values.shape[-1])
        order = mx.argsort(-values, axis=-1)[:, :num_top]
        top = mx.take_along_axis(values, order, axis=-1)
        return _Scores([self.rows[i] for i in asking], chosen, order, top)
