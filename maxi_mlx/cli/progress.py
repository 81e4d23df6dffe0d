"""Shows a long job: as a bar on a terminal, as plain lines elsewhere. Knows no job by name.

Downloading X  ━━━━━━━━━━───────  45.1 of 92.9 MB  3.2 MB/s  0:15 left
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

from maxi_mlx.catalog.pull.progress import Progress, Unit
from maxi_mlx.cli.terminal import Paint, size_text

Clock = Callable[[], float]

REDRAW_S = 0.1
LINE_S = 10.0  # between lines in a log
SPEED_S = 5.0  # the speed is that of the last so many seconds
MIN_BAR_COLUMNS, MAX_BAR_COLUMNS = 8, 40


@contextlib.contextmanager
def progress_on(stream: TextIO, clock: Clock = time.monotonic) -> Iterator[Progress]:
    """A display on ``stream``; whatever happens inside, the next output begins on its own line."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield Lines(stream, clock)
        return
    bar = Bar(stream, clock)
    try:
        yield bar
    finally:
        bar.close()


class Job:
    """Counts one job and says it in words. Not told the time, it asks ``clock``."""

    def __init__(self, label: str, total: int, *, unit: Unit, already: int, clock: Clock) -> None:
        self.label = label
        self.total = total
        self.count = already
        self._unit = unit
        self._clock = clock
        self._began_s = clock()
        self._recent = deque([(self._began_s, already)])

    @property
    def share(self) -> float:
        return min(self.count / self.total, 1.0) if self.total else 1.0

    def advance(self, amount: int) -> None:
        now_s = self._clock()
        self.count += amount
        self._recent.append((now_s, self.count))
        while len(self._recent) > 2 and now_s - self._recent[1][0] > SPEED_S:
            self._recent.popleft()

    def amount(self) -> str:
        if self._unit == "bytes":
            return f"{self.count / 1e6:.1f} of {self.total / 1e6:.1f} MB"
        return f"{self.count} of {self.total} {self._unit}"

    def speed(self) -> str:
        """Rate and time left, "" while nothing is known of them."""
        (first_s, first), (last_s, last) = self._recent[0], self._recent[-1]
        if last_s <= first_s or last <= first:
            return ""
        per_s = (last - first) / (last_s - first_s)
        left = f"{duration_text((self.total - self.count) / per_s)} left"
        if self._unit != "bytes":
            return left
        rate = f"{per_s / 1e6:.1f} MB" if per_s >= 1e6 else size_text(round(per_s))
        return f"{rate}/s  {left}"

    def took(self) -> str:
        return duration_text(self._clock() - self._began_s)


class Bar:
    """One line of a terminal, drawn over and over."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._paint = Paint.on(stream)
        self._full, self._empty = "━─" if "utf" in (stream.encoding or "").lower() else "#."
        self._job: Job | None = None
        self._drawn_s = 0.0

    def start(self, label: str, total: int, *, unit: Unit, already: int = 0) -> None:
        self._job = Job(label, total, unit=unit, already=already, clock=self._clock)
        self._draw(self._job)

    def advance(self, amount: int) -> None:
        if self._job is None:
            return
        self._job.advance(amount)
        if self._clock() - self._drawn_s >= REDRAW_S:
            self._draw(self._job)

    def done(self) -> None:
        if self._job is not None:
            self._write(f"{self._job.label}: done in {self._job.took()}")
        self._job = None

    def say(self, text: str) -> None:
        self._write(text)
        if self._job is not None:
            self._draw(self._job)

    def close(self) -> None:
        """Leave an unfinished bar where it stands."""
        if self._job is not None:
            self._draw(self._job)
            self._stream.write("\n")
            self._stream.flush()
        self._job = None

    def _write(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}\n")
        self._stream.flush()

    def _draw(self, job: Job) -> None:
        width = shutil.get_terminal_size().columns - 1  # the last column would wrap
        numbers = "  ".join(part for part in (job.amount(), job.speed()) if part)
        room = width - len(job.label) - len(numbers) - 4
        bar = ""
        if room >= MIN_BAR_COLUMNS:
            columns = min(room, MAX_BAR_COLUMNS)
            num_full = int(columns * job.share)
            bar = self._paint(self._full * num_full, "cyan")
            bar = f"  {bar}{self._paint(self._empty * (columns - num_full), 'bright_black')}"
            line = f"{job.label}{bar}  {numbers}"
        else:
            line = f"{job.label}  {numbers}"[:width]
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()
        self._drawn_s = self._clock()


class Lines:
    """For pipes and logs: a line at the start, one every few seconds, one at the end."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._job: Job | None = None
        self._written_s = 0.0

    def start(self, label: str, total: int, *, unit: Unit, already: int = 0) -> None:
        self._job = Job(label, total, unit=unit, already=already, clock=self._clock)
        self.say(f"{label}: {self._job.amount()}")

    def advance(self, amount: int) -> None:
        job = self._job
        if job is None:
            return
        job.advance(amount)
        if self._clock() - self._written_s >= LINE_S:
            self.say("  ".join(part for part in (f"  {job.amount()}", job.speed()) if part))

    def done(self) -> None:
        if self._job is not None:
            self.say(f"{self._job.label}: done in {self._job.took()}")
        self._job = None

    def say(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._written_s = self._clock()


def duration_text(duration_s: float) -> str:
    """0:07, 12:30, 1:02:03."""
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
