"""Whose turn it is on the device, over all models: decode steps first, then a slice of a prompt.

    turn:  every model decodes one step ─► if their share is paid, one slice of one model's prompt

A slice that took t seconds is followed by decode steps for t · share / (1 - share), whichever
model it was for. Lives on the device thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from maxi_mlx.core.settings import SchedulerSettings
from maxi_mlx.engine.mailbox import Outbox
from maxi_mlx.engine.scheduler import Scheduler

# With nobody decoding, a slice may be longer; it still ends soon enough to notice a client that
# left, or a shorter prompt that came.
_IDLE_SLICE_S = 0.5
_NEWS = 0.2  # what the latest step counts for in the average


class Rota:
    """Shares the device between models, and between running answers and new prompts."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._owed_s = 0.0  # what running answers have coming to them
        self._step_s = 0.0  # what a decode step of all models takes, lately
        self._num_slices = 0

    def turn(self, schedulers: Sequence[Scheduler]) -> Outbox:
        """Gives every model its turn. What a model raises ends that model's requests alone."""
        outbox: Outbox = []
        for scheduler in schedulers:
            scheduler.guarded(scheduler.prepare, outbox)
        decoding = [scheduler for scheduler in schedulers if scheduler.num_decoding]
        elapsed_s = _timed(decoding, lambda scheduler: scheduler.decode, outbox)
        self._owed_s = max(0.0, self._owed_s - elapsed_s) if decoding else 0.0
        reading = [scheduler for scheduler in schedulers if scheduler.num_reading]
        if reading and not self._owed_s:
            # The steps that are still being computed belong to those who decode, not to the slice.
            elapsed_s += _timed(decoding, lambda scheduler: scheduler.settle, outbox)
            self._read(reading, [s for s in decoding if s.num_decoding], outbox)
        if decoding:
            self._step_s += (elapsed_s - self._step_s) * _NEWS
        return outbox

    def _read(
        self, reading: Sequence[Scheduler], decoding: Sequence[Scheduler], outbox: Outbox
    ) -> None:
        scheduler = reading[self._num_slices % len(reading)]
        self._num_slices += 1
        share = self._decode_share(reading, decoding)
        slice_s = _IDLE_SLICE_S
        if decoding:
            # Just so long that one step pays for it: text then comes slower, not in bursts.
            slice_s = min(self._step_s * (1 - share) / share, self._settings.prefill_slice_s)
        elapsed_s = _timed([scheduler], lambda reader: partial(reader.read, slice_s), outbox)
        if decoding:
            self._owed_s = elapsed_s * share / (1 - share)

    def _decode_share(self, reading: Sequence[Scheduler], decoding: Sequence[Scheduler]) -> float:
        """The strategy's share is for as many answers as there are prompts; fewer have less."""
        num_decoding = sum(scheduler.num_decoding for scheduler in decoding)
        num_reading = sum(scheduler.num_reading for scheduler in reading)
        return self._settings.decode_share * min(1.0, num_decoding / num_reading)


def _timed(
    schedulers: Sequence[Scheduler],
    work: Callable[[Scheduler], Callable[[Outbox], None]],
    outbox: Outbox,
) -> float:
    """Does a part of every scheduler's work and says how many seconds it took."""
    started = time.perf_counter()
    for scheduler in schedulers:
        scheduler.guarded(work(scheduler), outbox)
    return time.perf_counter() - started
