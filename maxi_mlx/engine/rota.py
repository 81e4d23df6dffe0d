"""Whose turn it is on the device, over all models: decode steps first, then a slice of a prompt.

    turn:  every model decodes one step ─► if their share is paid, one slice of one model's prompt

A slice that took t seconds is followed by decode steps for t · share / (1 - share), whichever
model it was for. Lives on the device thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from maxi_mlx.core.settings import SchedulerSettings
from maxi_mlx.engine.mailbox import Outbox
from maxi_mlx.engine.scheduler import Scheduler

# With nobody decoding, a slice may be longer; it still ends soon enough to notice a client that
# left, or a shorter prompt that came.
_IDLE_SLICE_S = 0.5


class Rota:
    """Shares the device between models, and between running answers and new prompts."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._owed_s = 0.0  # what running answers have coming to them
        self._num_slices = 0

    def turn(self, schedulers: Sequence[Scheduler]) -> Outbox:
        """Gives every model its turn. What a model raises ends that model's requests alone."""
        outbox: Outbox = []
        for scheduler in schedulers:
            scheduler.guarded(scheduler.prepare, outbox)
        decoding = [scheduler for scheduler in schedulers if scheduler.is_decoding]
        started = time.perf_counter()
        for scheduler in decoding:
            scheduler.guarded(scheduler.decode, outbox)
        self._owed_s -= time.perf_counter() - started
        if not decoding:
            self._owed_s = 0.0
        reading = [scheduler for scheduler in schedulers if scheduler.is_reading]
        if reading and self._owed_s <= 0:
            self._read(reading, decoding, outbox)
        return outbox

    def _read(
        self, reading: Sequence[Scheduler], decoding: Sequence[Scheduler], outbox: Outbox
    ) -> None:
        # The steps that are still being computed belong to those who decode, not to the slice.
        for scheduler in decoding:
            scheduler.guarded(scheduler.settle, outbox)
        scheduler = reading[self._num_slices % len(reading)]
        self._num_slices += 1
        slice_s = self._settings.prefill_slice_s if decoding else _IDLE_SLICE_S
        started = time.perf_counter()
        scheduler.guarded(lambda box: scheduler.read(slice_s, box), outbox)
        elapsed_s = time.perf_counter() - started
        share = self._settings.decode_share
        self._owed_s = elapsed_s * share / (1 - share)
