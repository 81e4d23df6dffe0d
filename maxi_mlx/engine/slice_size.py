"""How many tokens of a prompt the device reads in so many seconds, learnt from what it did.

A slice of n tokens, d tokens into its prompt, takes about a + b·n + c·n·(d + n/2) seconds: a fixed
cost, one a token, and one a token for every token before it that it looks back at. With the rate
alone, a model whose fixed cost exceeds the slice would get ever smaller slices, each as slow as
the last; without the third, the slices of a long prompt would take ever longer. Pure: no clock, no
MLX.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_FIRST_TOKENS = 32  # until anything is known
_SMALLEST_TOKENS = 8
_FIXED_PART = 1 / 8  # of a slice that is worth its fixed cost
_MOST_GROWTH = 16  # times the largest slice so far: farther out, a fit is a guess
_NEWS = 0.3  # what a measurement counts for beside those of its kind before it
_NUM_LATEST = 4  # slices that tell how fast the device is just now
_REFIT_EVERY = 8
# Another part must explain the times so much better: a share of the mean squared relative error,
# beside what is noise of a clock.
_BETTER = 0.9
_NOISE = 1e-4

# The parts of a fit by column: fixed, a token, a token and token before it.
_FITS = ((1,), (1, 2), (0, 1), (0, 1, 2))

_Kind = tuple[int, int]


@dataclass(slots=True)
class _Slices:
    """What slices of one kind, about as long and as deep, took on average."""

    num_tokens: float
    depth: float
    seconds: float

    def learn(self, num_tokens: int, depth: int, seconds: float) -> None:
        self.num_tokens += (num_tokens - self.num_tokens) * _NEWS
        self.depth += (depth - self.depth) * _NEWS
        self.seconds += (seconds - self.seconds) * _NEWS


class SliceSize:
    """One model's speed at reading prompts.

    The three costs are fitted over slices of every kind that was seen, however long ago: in the
    middle of a prompt all slices are alike, and tell nothing of what a larger one would cost. How
    fast the device is just now, against the fit, the latest slices tell.
    """

    def __init__(self, known: Iterable[tuple[int, float]] = ()) -> None:
        """``known`` are the tokens and seconds of small slices of hardly any text, which show best
        what is fixed: what is read for answers beside may all be of one size."""
        self._slices: dict[_Kind, _Slices] = {}
        self._costs = (0.0, 0.0, 0.0)
        self._latest: deque[tuple[int, int, float]] = deque(maxlen=_NUM_LATEST)
        self._num_until_fit = 0
        for num_tokens, seconds in known:
            if seconds > 0:
                self._slices[_kind(num_tokens, 0)] = _Slices(num_tokens, 0, seconds)

    def learn(self, num_tokens: int, seconds: float, *, depth: int) -> None:
        """One slice was read, after ``depth`` tokens of its prompt. Tiny ones say nothing."""
        if num_tokens < _SMALLEST_TOKENS or seconds <= 0:
            return
        if seconds < self._predicted_s(num_tokens, depth) * self._pace / 2:
            # What went before was no guide: the first pass compiles its kernels.
            self._slices.clear()
            self._latest.clear()
        self._latest.append((num_tokens, depth, seconds))
        kind = _kind(num_tokens, depth)
        known = self._slices.get(kind)
        if known is None:
            self._slices[kind] = _Slices(num_tokens, depth, seconds)
        else:
            known.learn(num_tokens, depth, seconds)
        self._num_until_fit -= 1
        if known is None or self._num_until_fit <= 0:
            self._num_until_fit = _REFIT_EVERY
            self._costs = _fit(list(self._slices.values()))

    def tokens_for(self, slice_s: float, *, depth: int, most_tokens: int) -> int:
        """The slice for so many seconds, ``depth`` tokens into a prompt. Never so small that most
        of its time is fixed cost: a smaller one would take hardly less time."""
        if not self._latest:
            return min(_FIRST_TOKENS, most_tokens)
        fixed_s, token_s, pair_s = self._costs
        here_s = token_s + pair_s * depth
        left_s = max(slice_s / self._pace - fixed_s, fixed_s)
        # left = here·n + pair/2·n², solved so that a pair of no cost divides by nothing.
        wanted = 2 * left_s / (here_s + math.sqrt(here_s**2 + 2 * pair_s * left_s))
        largest = _MOST_GROWTH * max(entry.num_tokens for entry in self._slices.values())
        smallest = min(_SMALLEST_TOKENS, most_tokens)
        return max(min(round(wanted), most_tokens, round(largest)), smallest)

    @property
    def worthwhile_s(self) -> float:
        """A slice of which no more than a small part is fixed cost."""
        return self._costs[0] * self._pace / _FIXED_PART

    @property
    def spare_tokens(self) -> int:
        """So few more are read sooner at once than with a pass of their own: it would cost its
        fixed part, and the step of running answers before it, which takes about as long."""
        fixed_s, token_s, _ = self._costs
        return int(2 * fixed_s / token_s) if token_s else 0

    @property
    def _pace(self) -> float:
        """What the latest slices took, as a multiple of what the fit says."""
        predicted_s = sum(self._predicted_s(tokens, depth) for tokens, depth, _ in self._latest)
        return sum(seconds for _, _, seconds in self._latest) / predicted_s if predicted_s else 1.0

    def _predicted_s(self, num_tokens: int, depth: int) -> float:
        fixed_s, token_s, pair_s = self._costs
        return fixed_s + num_tokens * (token_s + pair_s * (depth + num_tokens / 2))


def _kind(num_tokens: int, depth: int) -> _Kind:
    return round(2 * math.log2(num_tokens)), round(math.log2(depth + 256))


def _fit(slices: list[_Slices]) -> tuple[float, float, float]:
    """Seconds fixed, a token, and a token and token before it; none below 0, the second above.

    Relative errors are what is made small, so that one slice held up by something else does not
    outweigh the rest. Of fits about as good the simplest is taken.
    """
    num_tokens = np.array([entry.num_tokens for entry in slices])
    depths = np.array([entry.depth for entry in slices])
    seconds = np.array([entry.seconds for entry in slices])
    parts = np.stack(
        [np.ones_like(num_tokens), num_tokens, num_tokens * (depths + num_tokens / 2)], axis=1
    )
    # Scaled to about one, or lstsq takes the small parts for rounding errors.
    scales = parts.mean(axis=0)
    rows = parts / scales / seconds[:, None]
    best, best_error = np.zeros(3), float("inf")
    for columns in map(list, _FITS):
        if len(columns) > len(slices):
            break
        found = np.linalg.lstsq(rows[:, columns], np.ones(len(slices)), rcond=None)[0]
        error = float(np.mean((rows[:, columns] @ found - 1) ** 2)) + _NOISE
        if np.all(found >= 0) and found[columns.index(1)] > 0 and error < best_error * _BETTER:
            best, best_error = np.zeros(3), error
            best[columns] = found / scales[columns]
    fixed_s, token_s, pair_s = map(float, best)
    return fixed_s, token_s, pair_s
