"""Whether the rows of a model fit into the memory that is left, as they are and as they grow.

Lives on the device thread; stored prefixes make way for rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from maxi_mlx.engine.device import is_allocation_failure
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.prefixes import Prefixes
from maxi_mlx.engine.row import Row

logger = logging.getLogger(__name__)

# What a row is expected to grow by before anyone looks again, in tokens.
_GROWTH_TOKENS = 256


class RowMemory:
    """``left_bytes`` is what may still be taken, less what other models' rows were promised;
    ``needed_bytes`` is what this model's rows were found to fit with: their caches, and what steps,
    the smallest slice and copies take for a moment."""

    def __init__(
        self,
        model: LanguageModel,
        prefixes: Prefixes,
        left_bytes: Callable[[], int],
    ) -> None:
        self._model = model
        self._prefixes = prefixes
        self.left_bytes = left_bytes
        self.needed_bytes = 0

    def fits(
        self,
        rows: Sequence[Row],
        newcomers: Sequence[Row],
        *,
        held_bytes: int,
        prompt_tokens: int,
    ) -> bool:
        """Whether all rows may grow for a while yet, of which ``rows`` hold so much already;
        ``prompt_tokens`` has the longest prompt that is read for any."""
        lengths = [
            len(row.token_ids) + min(row.num_tokens_left, _GROWTH_TOKENS)
            for row in (*rows, *newcomers)
        ]
        needed_bytes = self._model.kv_cost.batches_bytes(
            lengths, most_padding_bytes=self._model.entry.all_weight_bytes
        )
        if len(lengths) > 1:  # one alone keeps its own cache
            needed_bytes += self._model.kv_cost.copy_bytes(needed_bytes)
        needed_bytes += self._model.pass_cost.least_bytes(
            num_rows=len(lengths), prompt_tokens=prompt_tokens
        )
        missing_bytes = needed_bytes - (self.left_bytes() + held_bytes)
        if missing_bytes <= 0:
            self.needed_bytes = needed_bytes
            return True
        # For a newcomer that would not fit all the same, nothing is given up: it waits for rows.
        if rows and newcomers and missing_bytes > self._prefixes.num_stored_bytes:
            return False
        self._prefixes.free(missing_bytes)
        if needed_bytes > self.left_bytes() + held_bytes:
            return False
        self.needed_bytes = needed_bytes
        return True

    def spares(self, rows: Sequence[Row], error: Exception) -> bool:
        """Whether what failed is to be tried again: there was no memory for it, and stored
        prefixes have made way. Once a row."""
        if not is_allocation_failure(error) or not rows:
            return False
        num_bytes = self._prefixes.num_stored_bytes
        if not num_bytes or any(row.had_memory_freed for row in rows):
            return False
        logger.warning("no memory (%s); stored prefixes make way for %d answers", error, len(rows))
        self._prefixes.free(num_bytes)
        for row in rows:
            row.had_memory_freed = True
        return True
