"""Draws the next token of every row of a batch in one go.

    logits ─► penalties and bias ─► grammars ─► temperature ─► top-k, top-p, min-p, XTC ─► draw

Shapes: logits ``(B, V)``, the result ``(B,)`` uint32. Without a temperature, or with a top-k of
one, the likeliest token is taken, whatever the filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.array_module import column, evaluated
from maxi_mlx.engine.filters import Filters
from maxi_mlx.engine.grammar.logits_mask import forbid

if TYPE_CHECKING:
    from maxi_mlx.engine.guide import Masks
    from maxi_mlx.engine.logits_edits import LogitsEdits
    from maxi_mlx.engine.row import Row

# Turns a row's key into the key of its coins, which must not depend on its draws.
_COIN = np.uint32(0x9E3779B9)


class BatchSampler:
    """The rows' sampling settings as arrays; built anew when the rows of a batch change.

    ``places`` are the rows' places in their texts of the token that is drawn next. They are
    counted here, ahead of the scheduler, which learns of tokens one step late.
    """

    def __init__(self, rows: Sequence[Row], *, places: Sequence[int], edits: LogitsEdits) -> None:
        self._xp = xp = edits.xp
        self._edits = edits
        self._is_guided = any(row.guide is not None for row in rows)
        drawn = [i for i, row in enumerate(rows) if not row.sampling.is_greedy]
        self._has_draws = bool(drawn)
        if not drawn:
            return
        params = [rows[i].sampling for i in drawn]
        self._is_partial = len(drawn) < len(rows)
        self._drawn = xp.array(drawn)
        self._temperature = column(xp, [max(p.temperature, 1e-6) for p in params])
        self._filters = Filters(xp, params)
        self._keys = np.array([rows[i].key for i in drawn], dtype=np.uint32)
        self._keys[:, 1] += np.array([places[i] for i in drawn], dtype=np.uint32)

    @property
    def is_on_host(self) -> bool:
        """Whether a draw waits for the logits, and is known at once."""
        return self._xp is np and (self._has_draws or self._is_guided or bool(self._edits))

    def draw(
        self, logits: mx.array, inputs: mx.array, masks: Callable[[], Masks | None] = lambda: None
    ) -> mx.array:
        """``inputs``, ``(B,)``: the tokens that the logits follow. ``masks`` tells what the rows'
        guides allow; it is asked once the logits are on their way."""
        if self._is_guided:
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
        allowed = masks() if self._is_guided else None
        if not self._has_draws and not self._edits and allowed is None:
            return mx.argmax(logits, axis=-1)
        xp = self._xp
        lazy = [logits.astype(mx.float32), inputs]
        if self._has_draws:
            lazy += self._randomness(logits.shape[-1])
        values, inputs, *randomness = evaluated(xp, lazy)
        if self._edits:
            values = self._edits.apply(values, inputs)
        if allowed is not None:
            values = forbid(xp, values, allowed.words, places=allowed.places)
        if self._has_draws:
            values = self._raced(values, *randomness)
        return mx.array(xp.argmax(values, axis=-1).astype(xp.uint32))

    def _randomness(self, vocabulary_size: int) -> list[mx.array]:
        """Even draws from 0 to 1 for the rows that draw: one a token, and a coin where needed.

        Keyed by row and place alone, so that neighbours and batches make no difference.
        """
        keys = self._keys.copy()
        self._keys[:, 1] += 1
        draws = [_even_draws(keys, vocabulary_size)]
        if self._filters.needs_coins:
            keys[:, 0] ^= _COIN
            draws.append(_even_draws(keys, 1))
        return draws

    def _raced(self, values: Any, chances: Any, coins: Any = None) -> Any:
        """Changes the logits of rows that draw so that the largest is the token drawn.

        Gumbel's trick: a number of his distribution is added to each. Where rounding moves the
        logits a little, as it does in a batch of another size, the token stays the same.
        """
        xp = self._xp
        picked = values[self._drawn] if self._is_partial else values
        # A chance of 0 gives -inf, which is right; a broken model's logits are its own matter.
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = self._filters.apply(picked / self._temperature, coins)
            raced = scaled - xp.log(-xp.log(chances))
        if not self._is_partial:
            return raced
        values = xp.array(values)  # a copy, as log-probabilities need the logits as they were
        values[self._drawn] = raced
        return values


def _even_draws(keys: NDArray[np.uint32], size: int) -> mx.array:
    """``(R, size)`` numbers from 0 to 1 by ``(R, 2)`` keys."""

    def draws(key: mx.array) -> mx.array:
        return mx.random.uniform(shape=(size,), key=key)

    return mx.vmap(draws)(mx.array(keys))
