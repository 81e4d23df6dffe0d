"""One request's inputs on their way over the device. Knows no MLX, so that the loop can make it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maxi_mlx.engine.mailbox import Mailbox
from maxi_mlx.engine.vectors.batches import Inputs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from maxi_mlx.engine.vectors.tokens import TokenRow


@dataclass(slots=True, eq=False)
class VectorJob:
    """One request's inputs, and what is computed of them so far. ``is_suspect``: it was in a batch
    that failed, and goes on by itself."""

    mailbox: Mailbox
    rows: Sequence[TokenRow]
    left: Inputs = field(init=False)
    results: list[NDArray[np.float32] | None] = field(init=False)
    num_done: int = 0
    is_suspect: bool = False
    arrived_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.results = [None] * len(self.rows)
        self.take_up()

    def take_up(self) -> None:
        """Everything that has no result yet is to be done, also what was in a failed batch."""
        undone = [place for place, result in enumerate(self.results) if result is None]
        self.left = Inputs({place: len(self.rows[place].ids) for place in undone})
