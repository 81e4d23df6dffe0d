"""A job's progress as lines of JSON, for clients that wait for it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from maxi_mlx.api import ollama
from maxi_mlx.catalog.pull.progress import Unit
from maxi_mlx.core.errors import MaxiError

BETWEEN_LINES_S = 0.2

# A line for the client, None at a good end, or what went wrong.
Step = bytes | MaxiError | None


class LineProgress:
    """Tells the progress of a job as lines, a few a second. Lives on the job's thread."""

    def __init__(self, tell: Callable[[Step], None]) -> None:
        self._tell = tell
        self._status = ""
        self._digest = ""
        self._total = 0
        self._completed = 0
        self._told_at_s = 0.0

    def start(self, label: str, total: int, *, unit: Unit, already: int = 0) -> None:
        self._status = label
        # Clients tell downloads apart by it, and show none without.
        self._digest = f"sha256:{hashlib.sha256(label.encode()).hexdigest()}"
        # Readers take the numbers for bytes.
        self._total = total if unit == "bytes" else 0
        self._completed = already
        self._line()

    def advance(self, amount: int) -> None:
        self._completed += amount
        if time.monotonic() - self._told_at_s >= BETWEEN_LINES_S:
            self._line()

    def done(self) -> None:
        self._completed = self._total
        self._line()

    def say(self, text: str) -> None:
        self._tell(ollama.status_line(text))

    def _line(self) -> None:
        self._told_at_s = time.monotonic()
        if self._total:
            line = ollama.status_line(
                self._status,
                digest=self._digest,
                completed=self._completed,
                total=self._total,
            )
        else:
            line = ollama.status_line(self._status)
        self._tell(line)
