"""A clock that goes on only where a test, or what it made slow, says so."""

from __future__ import annotations


class Clock:
    """Stands in for `time.perf_counter` or `time.monotonic`."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def __call__(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds
