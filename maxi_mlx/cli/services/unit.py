"""What a service manager is told of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAME = "maxi-mlx"
DESCRIPTION = "maxi-mlx, a server for the MLX models on this machine"
# After the drain's time the server ends by itself; a manager that kills it first would cut answers.
STOP_MARGIN_S = 30
RESTART_AFTER_S = 10
EXIT_SETUP = 2  # what is wrong then stays wrong, however often it is started


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """``command`` begins with the interpreter's path. None of it is secret: other users can read
    both."""

    command: Sequence[str]
    environment: Mapping[str, str]
    drain_timeout_s: float

    @property
    def stop_timeout_s(self) -> int:
        return round(self.drain_timeout_s) + STOP_MARGIN_S
