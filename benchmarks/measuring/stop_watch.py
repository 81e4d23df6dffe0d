"""Takes the time of texts that this process writes."""

from __future__ import annotations

import time

from measuring.speed import Speed


class StopWatch:
    """Runs from when it is made; lives on the thread that writes."""

    def __init__(self, *, num_texts: int) -> None:
        self._num_texts = num_texts
        self._num_tokens = 0
        self._first_token_s: dict[int, float] = {}
        self._began_s = time.perf_counter()
        self._all_begun: tuple[float, int] | None = None  # processor time, tokens so far

    def note(self, text: int) -> None:
        """One more token of a text."""
        self._num_tokens += 1
        if self._all_begun is None:
            self._first_token_s.setdefault(text, time.perf_counter() - self._began_s)
            if len(self._first_token_s) == self._num_texts:
                self._all_begun = time.process_time(), self._num_tokens

    def speed(self) -> Speed:
        """Raises where a text has not begun."""
        seconds = time.perf_counter() - self._began_s
        if self._all_begun is None:
            raise ValueError(f"{len(self._first_token_s)} of {self._num_texts} texts have begun")
        cpu_s, num_tokens = self._all_begun
        return Speed(
            num_tokens=self._num_tokens,
            seconds=seconds,
            first_token_s=tuple(self._first_token_s.values()),
            cpu_s=time.process_time() - cpu_s,
            num_cpu_tokens=self._num_tokens - num_tokens,
        )
