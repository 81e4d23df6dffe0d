"""A clock that goes on only where a test, or what it made slow, says so."""

from __future__ import annotations


class Clock:
    """Stands in for the module `time` in another module."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def perf_counter(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds
