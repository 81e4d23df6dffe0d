"""What work on the device takes in memory for as long as it lasts, measured while a model loads."""

from __future__ import annotations

from collections.abc import Callable

from maxi_mlx.engine.device import transient_bytes
from maxi_mlx.engine.loading import Steps

# MLX allocates ahead of what it computes, as far as it gets: the same pass takes more and less, of
# twelve large ones the highest up to 28 % more than the lowest.
_SPREAD = 3


def with_spread(num_bytes: int) -> int:
    """What work that took so much may take another time."""
    return num_bytes + num_bytes // _SPREAD


def most_transient_bytes(work: Callable[[], object], num_times: int) -> Steps[int]:
    """Of work that is done so many times."""
    most_bytes = 0
    for _ in range(num_times):
        most_bytes = max(most_bytes, transient_bytes(work))
        yield None
    return with_spread(most_bytes)
