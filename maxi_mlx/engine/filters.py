"""Which tokens a draw may give: top-k, top-p, min-p and XTC, for all rows of a batch at once.

A filter comes down to one number a row, a floor or a ceiling of its logits. So tokens that are
equally likely stay or go together, and what a row keeps depends on no other row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.array_module import column

if TYPE_CHECKING:
    from maxi_mlx.engine.row import RowSampling

NEVER = -1e30  # finite, so that a row with nothing but this still has a softmax
_BLOCK = 64  # tokens of which just the largest is looked at, unless it is among the best
_NEAR = 7.0  # a token less likely than the likeliest by more than e to this is seldom in top-p


class Filters:
    """The filters of some rows, in this order: top-k, top-p of what is left, min-p, XTC."""

    def __init__(self, xp: Any, params: Sequence[RowSampling]) -> None:
        self._xp = xp
        self._num_rows = len(params)
        self._tails: list[tuple[Any, _TopK | _TopP]] = []  # with the rows that each is for
        if rows := [i for i, p in enumerate(params) if p.top_k]:
            self._tails.append((xp.array(rows), _TopK(xp, [params[i] for i in rows])))
        if rows := [i for i, p in enumerate(params) if p.top_p < 1 and not p.top_k]:
            self._tails.append((xp.array(rows), _TopP(xp, [params[i] for i in rows])))
        self._log_min_p: Any = None
        if any(p.min_p for p in params):
            logs = [math.log(p.min_p) if p.min_p else -math.inf for p in params]
            self._log_min_p = column(xp, logs)
        self._exclusion = _Exclusion(xp, params) if any(p.xtc_probability for p in params) else None

    @property
    def needs_coins(self) -> bool:
        return self._exclusion is not None

    def apply(self, scaled: Any, coins: Any) -> Any:
        """``(R, V)`` logits by temperature in, the same out, with ``NEVER`` for tokens that are
        not to be drawn. ``coins``, ``(R, 1)``: an even draw from 0 to 1 for each row, for XTC."""
        xp = self._xp
        floor = self.floor(scaled)
        if floor is not None:
            scaled = xp.where(scaled < floor, NEVER, scaled)
        if self._exclusion is not None:
            ceiling = self._exclusion.ceiling(scaled, coins)
            scaled = xp.where(scaled > ceiling, NEVER, scaled)
        return scaled

    def floor(self, scaled: Any) -> Any:
        """The least logit that top-k, top-p and min-p keep, ``(R, 1)``; None without any."""
        xp = self._xp
        floor = self._tail_floor(scaled) if self._tails else None
        if self._log_min_p is None:
            return floor
        least = xp.max(scaled, axis=-1, keepdims=True) + self._log_min_p
        return least if floor is None else xp.maximum(floor, least)

    def _tail_floor(self, scaled: Any) -> Any:
        """The least logit that top-k and top-p keep, ``(R, 1)``."""
        xp = self._xp
        floor = xp.full((self._num_rows, 1), -math.inf, dtype=xp.float32)
        for rows, tail in self._tails:
            if len(rows) == self._num_rows:
                return tail.floor(scaled)
            floor[rows] = tail.floor(scaled[rows])
        return floor


class _TopK:
    """Top-k, and top-p where a row has it too. No more tokens are sorted than may be left."""

    def __init__(self, xp: Any, params: Sequence[RowSampling]) -> None:
        self._xp = xp
        self._most = max(p.top_k for p in params)
        self._top_k = column(xp, [p.top_k for p in params])
        self._top_p = column(xp, [p.top_p for p in params])

    def floor(self, scaled: Any) -> Any:
        xp = self._xp
        ordered = largest(xp, scaled, min(self._most, scaled.shape[-1]))
        ranks = xp.arange(ordered.shape[-1], 0, -1)[None]  # the last is the likeliest, of rank 1
        is_top = ranks <= self._top_k
        masses = xp.exp(ordered - ordered[:, -1:]) * is_top
        # A rounded sum may reach the total early: a row without top-p keeps all.
        is_kept = is_top & (_is_nucleus(xp, masses, self._top_p) | (self._top_p >= 1))
        return _last_of(xp, ordered, is_kept)


class _TopP:
    """Top-p alone: the likeliest tokens that together have that probability."""

    def __init__(self, xp: Any, params: Sequence[RowSampling]) -> None:
        self._xp = xp
        self._top_p = column(xp, [p.top_p for p in params])

    def floor(self, scaled: Any) -> Any:
        return self._by_guess(scaled) if self._xp is np else self._by_sorting(scaled, self._top_p)

    def _by_sorting(self, scaled: Any, top_p: Any) -> Any:
        xp = self._xp
        ordered = xp.sort(scaled, axis=-1)
        is_kept = _is_nucleus(xp, xp.exp(ordered - ordered[:, -1:]), top_p)
        return _last_of(xp, ordered, is_kept)

    def _by_guess(self, scaled: Any) -> Any:
        """Sorts the tokens not far below the likeliest; where they are not enough, all."""
        peak = np.max(scaled, axis=-1, keepdims=True)
        total = np.sum(np.exp(scaled - peak), axis=-1, keepdims=True)
        ordered = np.sort(_near(scaled, peak - _NEAR), axis=-1)
        is_kept = _is_nucleus(np, np.exp(ordered - peak), self._top_p, total=total)
        floor = _last_of(np, ordered, is_kept)
        unsure = np.flatnonzero(is_kept[:, 0])
        if len(unsure):
            floor[unsure] = self._by_sorting(scaled[unsure], self._top_p[unsure])
        return floor


def _near(scaled: NDArray[np.float32], least: NDArray[np.float32]) -> NDArray[np.float32]:
    """The values of each row that are not below ``least``, ``(R, 1)``, behind enough ``-inf`` that
    one comes first in every row."""
    size = scaled.shape[-1]
    places = np.flatnonzero(scaled >= least)
    rows = places // size
    counts = np.bincount(rows, minlength=len(scaled))
    starts = np.cumsum(counts) - counts
    near = np.full((len(scaled), 1 + counts.max()), -np.inf, dtype=np.float32)
    near[rows, 1 + np.arange(len(places)) - starts[rows]] = scaled.reshape(-1)[places]
    return near


class _Exclusion:
    """XTC, "exclude top choices": of the tokens that are at least as likely as the threshold, all
    but the least likely go, in as many of the steps as the probability says.

    A step in which the answer's end or a line's would go is left as it is, which is how XTC's
    author has it: to spare just those tokens would make them likelier than the model does.
    """

    def __init__(self, xp: Any, params: Sequence[RowSampling]) -> None:
        self._xp = xp
        self._probability = column(xp, [p.xtc_probability for p in params])
        self._threshold = column(xp, [p.xtc_threshold for p in params])
        shape = (len(params), max(1, *(len(p.xtc_spared) for p in params)))
        token_ids, is_spared = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.bool_)
        for line, p in enumerate(params):
            token_ids[line, : len(p.xtc_spared)] = p.xtc_spared
            is_spared[line, : len(p.xtc_spared)] = True
        self._spared_ids, self._is_spared = xp.array(token_ids), xp.array(is_spared)

    def ceiling(self, scaled: Any, coins: Any) -> Any:
        """The largest logit that each row keeps, ``(R, 1)``."""
        xp = self._xp
        masses = xp.exp(scaled - xp.max(scaled, axis=-1, keepdims=True))
        enough = self._threshold * xp.sum(masses, axis=-1, keepdims=True)
        is_likely = (masses >= enough) & (scaled > NEVER)
        ceiling = xp.min(xp.where(is_likely, scaled, math.inf), axis=-1, keepdims=True)
        spared = xp.take_along_axis(scaled, self._spared_ids, axis=-1)
        would_go = xp.any((spared > ceiling) & self._is_spared, axis=-1, keepdims=True)
        return xp.where((coins < self._probability) & ~would_go, ceiling, math.inf)


def _is_nucleus(xp: Any, masses: Any, top_p: Any, *, total: Any = None) -> Any:
    """Which of ``masses``, in rising order, have less than ``top_p`` of the total above them."""
    sums = xp.cumsum(masses, axis=-1)
    most = sums[:, -1:]
    return most - sums < top_p * (most if total is None else total)


def _last_of(xp: Any, ordered: Any, is_kept: Any) -> Any:
    """The least value that is kept, where those are at the end of each row."""
    size = ordered.shape[-1]
    first = size - xp.sum(is_kept, axis=-1, keepdims=True)
    # None is kept where a model gave no numbers, and MLX reads whatever is beyond the end.
    return xp.take_along_axis(ordered, xp.minimum(first, size - 1), axis=-1)


def largest(xp: Any, values: Any, count: int) -> Any:
    """The ``count`` largest of each row in rising order: ``(R, V)`` to ``(R, count)``."""
    if count * _BLOCK * 4 <= values.shape[-1]:
        values = _best_blocks(xp, values, count)
    size = values.shape[-1]
    if count < size:
        values = xp.partition(values, size - count, axis=-1)[:, size - count :]
    return xp.sort(values, axis=-1)


def _best_blocks(xp: Any, values: Any, count: int) -> Any:
    """Fewer values, among which are the ``count`` largest of each row.

    Those are in the ``count`` blocks with the largest maxima: any other block's values are no
    larger than its maximum, and so not larger than those ``count`` maxima. So the vocabulary is
    gone over once, and a part of it partitioned, which on a GPU is to sort it.
    """
    num_rows, size = values.shape
    end = size - size % _BLOCK
    blocks = values[:, :end].reshape(num_rows, -1, _BLOCK)
    best = xp.argpartition(-xp.max(blocks, axis=-1), count - 1, axis=-1)[:, :count]
    chosen = xp.take_along_axis(blocks, best[:, :, None], axis=1).reshape(num_rows, -1)
    return xp.concatenate([chosen, values[:, end:]], axis=-1)
