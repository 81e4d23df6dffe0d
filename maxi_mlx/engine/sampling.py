"""Draws the next token of every row of a batch in one go.

    logits ─► penalties and bias ─► grammars ─► the likeliest, or a draw (`draws.py`)

Shapes: logits ``(B, V)``, the result ``(B,)`` uint32. Without a temperature, or with a top-k of
one, the likeliest token is taken, whatever the filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from maxi_mlx.engine.array_module import evaluated
from maxi_mlx.engine.draws import Draws, leaves_few
from maxi_mlx.engine.grammar.logits_mask import forbid

if TYPE_CHECKING:
    from maxi_mlx.engine.guide import Masks
    from maxi_mlx.engine.logits_edits import LogitsEdits
    from maxi_mlx.engine.row import Row


class BatchSampler:
    """The rows' sampling settings as arrays; built anew when the rows of a batch change.

    ``places`` are the rows' places in their texts of the token that is drawn next. They are
    counted here, ahead of the scheduler, which learns of tokens one step late.
    """

    def __init__(self, rows: Sequence[Row], *, places: Sequence[int], edits: LogitsEdits) -> None:
        self._xp = xp = edits.xp
        self._edits = edits
        self._is_guided = any(row.guide is not None for row in rows)
        # Filtered rows by themselves, so that they may go on with the few tokens they leave.
        kinds: list[list[int]] = [[], []]
        for line, row in enumerate(rows):
            if not row.sampling.is_greedy:
                kinds[xp is np and leaves_few(row.sampling)].append(line)
        self._draws = [Draws(xp, rows, lines, places) for lines in kinds if lines]

    @property
    def is_on_host(self) -> bool:
        """Whether a draw waits for the logits, and is known at once."""
        return self._xp is np and bool(self._draws or self._is_guided or self._edits)

    def draw(
        self, logits: mx.array, inputs: mx.array, masks: Callable[[], Masks | None] = lambda: None
    ) -> mx.array:
        """``inputs``, ``(B,)``: the tokens that the logits follow. ``masks`` tells what the rows'
        guides allow; it is asked once the logits are on their way."""
        if self._is_guided:
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
        allowed = masks() if self._is_guided else None
        if not self._draws and not self._edits and allowed is None:
            return mx.argmax(logits, axis=-1)
        xp = self._xp
        lazy = [logits.astype(mx.float32), inputs]
        for draws in self._draws:
            lazy += draws.randomness(logits.shape[-1])
        values, inputs, *randomness = evaluated(xp, lazy)
        if self._edits:
            values = self._edits.apply(values, inputs)
        if allowed is not None:
            values = forbid(xp, values, allowed.words, places=allowed.places)
        return mx.array(self._tokens(values, iter(randomness)).astype(xp.uint32))

    def _tokens(self, values: Any, randomness: Iterator[Any]) -> Any:
        """``(B, V)`` to ``(B,)``: the likeliest for greedy rows, and a draw for the others."""
        if not self._draws:
            return self._xp.argmax(values, axis=-1)
        if self._draws[0].has_all_rows:
            return self._draws[0].tokens(values, randomness)
        tokens = self._xp.argmax(values, axis=-1)
        for draws in self._draws:
            tokens[draws.lines] = draws.tokens(values, randomness)
        return tokens
