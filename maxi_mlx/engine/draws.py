"""The draws of the rows of a batch that have a temperature, a token each.

    logits ─► temperature ─► top-k, top-p, min-p, XTC ─► race

A race is Gumbel's trick: a number of his distribution is added to each logit, and the largest wins.
Where rounding moves the logits a little, as it does in a batch of another size, the winner stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from maxi_mlx.engine.array_module import column
from maxi_mlx.engine.chances import chances, halves
from maxi_mlx.engine.filters import Filters

if TYPE_CHECKING:
    from maxi_mlx.engine.row import Row, RowSampling

# Turns a row's key into the key of its coins, which must not depend on its draws.
_COIN = np.uint32(0x9E3779B9)


def leaves_few(params: RowSampling) -> bool:
    """Whether a filter may leave so few tokens that it is worth going on with these alone."""
    is_filtered = params.top_k > 0 or params.top_p < 1 or params.min_p > 0
    return is_filtered and not params.xtc_probability


class Draws:
    """Some rows' settings as arrays. ``lines``: where they are in the batch. ``places``: theirs in
    their texts of the token that is drawn next.
    """

    def __init__(
        self, xp: Any, rows: Sequence[Row], lines: Sequence[int], places: Sequence[int]
    ) -> None:
        self._xp = xp
        params = [rows[i].sampling for i in lines]
        self.lines = xp.array(lines)
        self.has_all_rows = len(lines) == len(rows)
        self._temperature = column(xp, [max(p.temperature, 1e-6) for p in params])
        self._filters = Filters(xp, params)
        # numpy goes on with the few that are left; a GPU would have to stop and look.
        self._leaves_few = xp is np and all(map(leaves_few, params))
        self._keys = np.array([rows[i].key for i in lines], dtype=np.uint32)
        self._keys[:, 1] += np.array([places[i] for i in lines], dtype=np.uint32)

    def randomness(self, vocabulary_size: int) -> list[mx.array]:
        """What the next race needs of the device: draws for each token, and coins for XTC."""
        if self._leaves_few:
            return []
        draws = [_draws(self._keys, vocabulary_size)]
        if self._filters.needs_coins:
            keys = self._keys.copy()
            keys[:, 0] ^= _COIN
            draws.append(_draws(keys, 1))
        return draws

    def tokens(self, values: Any, randomness: Iterator[Any]) -> Any:
        """The batch's logits ``(B, V)`` in, which stay as they are; the rows' tokens out. What
        follows is for the next tokens."""
        picked = values if self.has_all_rows else values[self.lines]
        # A broken model's logits, which may be no numbers, are its own matter.
        with np.errstate(invalid="ignore"):
            scaled = picked / self._temperature
            if self._leaves_few:
                tokens = self._race_of_few(scaled)
            else:
                even = next(randomness)
                coins = next(randomness) if self._filters.needs_coins else None
                left = self._filters.apply(scaled, coins)
                tokens = self._xp.argmax(left + _gumbel(self._xp, even), axis=-1)
        self._keys[:, 1] += 1
        return tokens

    def _race_of_few(self, scaled: Any) -> Any:
        """The race among the tokens that the filters leave, of all rows in one line."""
        size = scaled.shape[-1]
        places = np.flatnonzero(scaled >= self._filters.floor(scaled))
        rows, token_ids = np.divmod(places, size)
        first, second = (half[rows, 0] for half in halves(self._keys))
        even = chances(np, token_ids.astype(np.uint32), first, second)
        raced = scaled.reshape(-1)[places] + _gumbel(np, even)
        best = np.full(len(scaled), -np.inf, dtype=np.float32)
        np.maximum.at(best, rows, raced)
        # A row of a broken model may have none left, and gets the first token.
        tokens = np.zeros(len(scaled), dtype=np.int64)
        is_best = raced == best[rows]
        tokens[rows[is_best]] = token_ids[is_best]
        return tokens


def _draws(keys: Any, size: int) -> mx.array:
    first, second = map(mx.array, halves(keys))
    draws: mx.array = chances(mx, mx.arange(size, dtype=mx.uint32)[None], first, second)
    return draws


def _gumbel(xp: Any, even: Any) -> Any:
    return -xp.log(-xp.log(even))
