"""Answers that decode together: one step is one token for each of them.

    step k:   run the model on the tokens drawn in step k-1, draw the next, start computing;
              then read the tokens of step k-1, which are done, and hand them out
    settle:   wait for step k and hand its tokens out, since something else comes next

A row alone keeps its plain cache; company is merged into mlx-lm's batched caches, row by row, and
the last one left gets a plain cache back. A model whose caches can't be merged gets one batch a
row. Lives on the device thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import mlx.core as mx

from maxi_mlx.engine.batch_cache import (
    cache_bytes,
    evaluate,
    evaluate_by_layers,
    extract_cache,
    join_caches,
)
from maxi_mlx.engine.grammar.masks import MaskWriter
from maxi_mlx.engine.guide import Guide, Masks, write_masks
from maxi_mlx.engine.logits_edits import LogitsEdits
from maxi_mlx.engine.mailbox import TokenScores
from maxi_mlx.engine.row import Row
from maxi_mlx.engine.sampling import BatchSampler
from maxi_mlx.engine.vision.places import Place


@dataclass(slots=True)
class _Scores:
    """Log-probabilities of one step, still on the device, for the rows that asked."""

    rows: list[Row]
    logprobs: mx.array  # (R, V)
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

    def of_another(self, row: Row, token_id: int, scores: TokenScores) -> TokenScores:
        """Where not the drawn token stands, but this one."""
        logprob = self.logprobs[self.rows.index(row), token_id].item()
        return replace(scores, logprob=cast(float, logprob))


@dataclass(frozen=True, slots=True, eq=False)
class Newcomer:
    """A row that may start: its tokens, less the last one, are in ``cache``, a list of its own,
    though rows of one prompt may have the same layers in it."""

    row: Row
    cache: list[Any]


@dataclass(frozen=True, slots=True)
class StepToken:
    """A token that the host now knows, or the ``fault`` for which the row can't have one."""

    row: Row
    token_id: int
    scores: TokenScores | None
    fault: Exception | None = None


class DecodeBatch:
    """The running rows of one model. ``rows``, ``_edits`` and every cache share one order."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._run = model  # with the rows' shifts, where any has one
        self.rows: list[Row] = []
        self._cache: list[Any] = []
        self._edits = LogitsEdits()
        self._sampler: BatchSampler | None = None  # None: the rows have changed
        self._inputs: mx.array | None = None  # (B,) the tokens that the next step feeds
        self._known: set[Row] = set()  # rows whose next input the host has: it is nothing new
        self._scores: _Scores | None = None
        self._mask_writer = MaskWriter()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_merged(self) -> bool:
        return len(self.rows) > 1

    @property
    def cache_bytes(self) -> int:
        return cache_bytes(self._cache)

    def join(self, newcomers: Sequence[Newcomer], *, vocabulary_size: int) -> None:
        """Takes rows and their caches' memory; all that come together cost one copy of the batch's
        caches. When it raises, the batch is as it was, but for CachesLost: then it is of no use.
        """
        rows = [newcomer.row for newcomer in newcomers]
        edits = self._edits.joined(rows, vocabulary_size=vocabulary_size)
        inputs = mx.array([row.token_ids[-1] for row in rows], dtype=mx.uint32)
        if self._inputs is not None:
            inputs = mx.concatenate([self._inputs, inputs])
        cache = join_caches(
            self._cache, [newcomer.cache for newcomer in newcomers], is_merged=self.is_merged
        )
        self._cache, self._inputs, self._sampler = cache, inputs, None
        self.rows += rows
        self._edits = edits
        self._known.update(rows)

    def dissolve(self) -> list[Newcomer]:
        """The rows and their own caches, to join another batch with, once settled. This one is of
        no use then."""
        newcomers = [Newcomer(row, self.cache_of(row)) for row in self.rows]
        self._cache = []
        return newcomers

    def num_cached_tokens(self, row: Row) -> int:
        """How many of a row's tokens are in its cache: all but one that the next step feeds."""
        return len(row.token_ids) - (row in self._known)

    def cache_of(self, row: Row) -> list[Any]:
        """A row's own cache, lazily; the batch's where the row is alone."""
        if not self.is_merged:
            return self._cache
        return extract_cache(self._model, self._cache, self.rows.index(row))

    def leave(self, leaving: set[Row]) -> None:
        """Drops rows and frees their share of the caches."""
        keep = [i for i, row in enumerate(self.rows) if row not in leaving]
        if len(keep) == len(self.rows):
            return
        was_merged = self.is_merged
        self._known -= leaving
        self.rows = [self.rows[i] for i in keep]
        self._edits = self._edits.kept(keep)
        self._sampler = None
        if not keep:
            self._cache, self._inputs, self._scores = [], None, None
            return
        assert self._inputs is not None
        self._inputs = self._inputs[mx.array(keep)]
        if was_merged and len(keep) == 1:
            self._cache = extract_cache(self._model, self._cache, keep[0])
        elif was_merged:
            for entry in self._cache:
                entry.filter(keep)
        # Lazy slices would hold the whole old batch in memory.
        mx.eval(self._inputs)
        evaluate_by_layers(self._cache)

    def settle(self) -> list[StepToken]:
        """Waits for the step under way, and returns its tokens."""
        assert self._inputs is not None
        tokens = self._tokens(self._inputs, self._known, self._scores)
        self._known, self._scores = set(self.rows), None
        return tokens

    def tidy(self) -> None:
        """Computes what no step needs, such as offsets of layers without positions: unread, it
        would grow into an ever longer chain."""
        evaluate(self._cache)

    def step(self) -> list[StepToken]:
        """Runs the model once. The tokens returned were drawn one step before, or where the host
        draws, in this one."""
        assert self._inputs is not None
        if self._sampler is None:
            self._sampler = self._make_sampler()
            self._run = _shifted(self._model, self.rows)
            if self._sampler.is_on_host and len(self._known) < len(self.rows):
                return self.settle()  # the device drew so far; these come first
        in_text = self._known  # rows whose text has their latest token
        early = self.settle() if self._may_replace() else []
        inputs, known, scores = self._inputs, self._known, self._scores
        logits = self._run(inputs[:, None], cache=self._cache)[:, -1, :]
        tokens: list[StepToken] | None = None

        def masks() -> Masks | None:
            nonlocal tokens  # the guides have to see the last ones before they tell of the next
            tokens = self._tokens(inputs, known, scores)
            return self._masks(in_text, logits.shape[-1])

        drawn = self._sampler.draw(logits, inputs, masks)
        if tokens is None:
            # The device goes on while the host reads.
            self._begin(drawn, logits)
            tokens = self._tokens(inputs, known, scores)
        else:
            self._begin(drawn, logits)
        if self._sampler.is_on_host:
            tokens += self.settle()
        return early + tokens

    def _begin(self, drawn: mx.array, logits: mx.array) -> None:
        self._scores = self._score(logits, drawn)
        self._inputs, self._known = drawn, set()
        pending = [drawn] if self._scores is None else [drawn, *self._scores.arrays]
        mx.async_eval(pending)  # type: ignore[no-untyped-call]

    def _tokens(self, drawn: mx.array, known: set[Row], scores: _Scores | None) -> list[StepToken]:
        """What a step drew, but for the rows whose token is known already; as their guides have it
        where these put another in its place."""
        if len(known) == len(self.rows):
            return []
        drawn_ids = cast(list[int], drawn.tolist())
        known_scores = scores.read() if scores is not None else {}
        tokens, is_changed = [], False
        for place, row in enumerate(self.rows):
            if row in known:
                continue
            token = StepToken(row, drawn_ids[place], known_scores.get(row))
            if row.guide is not None:
                token = _guided(token, row.guide, scores)
            tokens.append(token)
            is_changed |= token.token_id != drawn_ids[place]
            drawn_ids[place] = token.token_id
        if is_changed:
            assert drawn is self._inputs, "the model was run on a token that does not stand"
            self._inputs = mx.array(drawn_ids, dtype=mx.uint32)
        return tokens

    def _may_replace(self) -> bool:
        """Whether a token under way may turn out to be another."""
        return any(
            row.guide is not None and row not in self._known and row.guide.may_replace
            for row in self.rows
        )

    def _masks(self, in_text: set[Row], vocabulary_size: int) -> Masks | None:
        """What may be drawn next. Tokens of rows that are not in ``in_text`` were just read, and
        are not in their row's text yet."""
        guides = [
            (place, row.guide, row.num_tokens_left - (row not in in_text))
            for place, row in enumerate(self.rows)
            if row.guide is not None
        ]
        return write_masks(guides, self._mask_writer, vocabulary_size=vocabulary_size)

    def _make_sampler(self) -> BatchSampler:
        # A row under way has one drawn token that the host has not counted yet.
        places = [row.num_generated + (row not in self._known) for row in self.rows]
        return BatchSampler(self.rows, places=places, edits=self._edits)

    def _score(self, logits: mx.array, drawn: mx.array) -> _Scores | None:
        """Log-probabilities by the model's own logits, before penalties and temperature."""
        asking = [i for i, row in enumerate(self.rows) if row.top_logprobs is not None]
        if not asking:
            return None
        index = mx.array(asking)
        values = logits[index].astype(mx.float32)
        values = values - mx.logsumexp(values, axis=-1, keepdims=True)
        chosen = mx.take_along_axis(values, drawn[index][:, None], axis=-1)[:, 0]
        top_ids = likeliest(values, max(self.rows[i].top_logprobs or 0 for i in asking))
        top = mx.take_along_axis(values, top_ids, axis=-1)
        return _Scores([self.rows[i] for i in asking], values, chosen, top_ids, top)


def _shifted(model: Any, rows: Sequence[Row]) -> Any:
    """The model for these rows: some have read images whose places aren't their tokens' count."""
    shifts = [row.shift for row in rows]
    return partial(model, place=Place(shifts=mx.array(shifts))) if any(shifts) else model


def _guided(token: StepToken, guide: Guide, scores: _Scores | None) -> StepToken:
    """The token that stands where this one was drawn. What its guide raises is the row's alone."""
    row = token.row
    try:
        token_id = guide.commit(token.token_id, num_left=row.num_tokens_left)
    except Exception as error:
        return replace(token, fault=error)
    if token_id == token.token_id:
        return token
    kept = token.scores
    if kept is not None and scores is not None:
        kept = scores.of_another(row, token_id, kept)
    return replace(token, token_id=token_id, scores=kept)


def likeliest(values: mx.array, count: int) -> mx.array:
    """The places of the ``count`` largest in each row, largest first: ``(R, V)`` to
    ``(R, count)``, without sorting the vocabulary."""
    if count >= values.shape[-1]:
        return mx.argsort(-values, axis=-1)
    places = mx.argpartition(-values, count, axis=-1)[:, :count]
    order = mx.argsort(-mx.take_along_axis(values, places, axis=-1), axis=-1)
    return mx.take_along_axis(places, order, axis=-1)
