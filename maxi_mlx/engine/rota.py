"""Whose turn it is on the device, over all models: decode steps, and slices of prompts between.

    turn:   a slice, if one is due ─► every model decodes a step
            or, once their share is paid, wait for the step, and a slice is due

A slice that took t seconds is followed by decode steps for t · share / (1 - share), whichever
model it was for. Tokens leave before a slice begins. Lives on the device thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from maxi_mlx.core.settings import SchedulerSettings
from maxi_mlx.engine.device_work import DeviceWork
from maxi_mlx.engine.mailbox import Outbox

# With nobody decoding, a slice may be longer; it still ends soon enough to notice a client that
# left, or a shorter prompt that came.
_IDLE_SLICE_S = 0.5
# However much a pass costs: so many times the strategy's longest slice is the longest of all.
_MOST_STRETCH = 4
_NEWS = 0.2  # what the latest step counts for in the average
# Of a step: what is owed beyond it is paid after the next slice. Half of all slices take a little
# longer than planned, and each would cost its prompt a whole step more.
_CREDIT = 0.5


class Rota:
    """Shares the device between models, and between running answers and new prompts."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._owed_s = 0.0  # what running answers have coming to them
        self._step_s = 0.0  # what a decode step of all models takes, lately
        self._num_slices = 0
        self._is_slice_due = True
        self._launched_s: float | None = None  # what a step took so far that is to be waited for

    def turn(self, models: Sequence[DeviceWork]) -> Outbox:
        """Gives every model its turn. What a model raises ends that model's requests alone."""
        outbox: Outbox = []
        for model in models:
            model.guarded(model.prepare, outbox)
        decoding = _decoding(models)
        if decoding and self._launched_s is not None:
            self._settle(decoding, outbox)
            return outbox
        reading = [model for model in models if model.num_wanting]
        if reading and (self._is_slice_due or not decoding):
            self._read(reading, decoding, outbox)
            decoding = _decoding(models)
        self._is_slice_due, self._launched_s = False, None
        if decoding:
            self._decode(decoding, is_company_waiting=bool(reading), outbox=outbox)
        else:
            self._owed_s = 0.0
        return outbox

    def _read(
        self, reading: Sequence[DeviceWork], decoding: Sequence[DeviceWork], outbox: Outbox
    ) -> None:
        reader = reading[self._num_slices % len(reading)]
        self._num_slices += 1
        share = self._decode_share(reading, decoding)
        slice_s = _IDLE_SLICE_S
        if decoding:
            most_s = self._settings.prefill_slice_s
            # Just so long that one step pays for it: text then comes slower, not in bursts.
            slice_s = min(self._step_s * (1 - share) / share, most_s)
            slice_s = max(slice_s, min(reader.worthwhile_slice_s, most_s * _MOST_STRETCH))
        started = time.perf_counter()
        reader.guarded(partial(reader.read, slice_s), outbox)
        if decoding:
            self._owed_s += (time.perf_counter() - started) * share / (1 - share)

    def _decode(
        self, decoding: Sequence[DeviceWork], *, is_company_waiting: bool, outbox: Outbox
    ) -> None:
        """One step. Where a slice comes next, the turn after goes to the step's end: the device is
        then the slice's. A turn of its own, since the step before has tokens that leave first."""
        started = time.perf_counter()
        _each(decoding, lambda model: model.decode, outbox)
        elapsed_s = time.perf_counter() - started
        if is_company_waiting and self._owed_s <= self._step_s * (1 + _CREDIT):
            self._launched_s = elapsed_s
        else:
            self._pay(elapsed_s)

    def _settle(self, decoding: Sequence[DeviceWork], outbox: Outbox) -> None:
        started = time.perf_counter()
        _each(decoding, lambda model: model.settle, outbox)
        self._pay((self._launched_s or 0.0) + time.perf_counter() - started)
        self._is_slice_due, self._launched_s = True, None

    def _pay(self, step_s: float) -> None:
        self._step_s += (step_s - self._step_s) * _NEWS
        self._owed_s = max(0.0, self._owed_s - step_s)

    def _decode_share(self, reading: Sequence[DeviceWork], decoding: Sequence[DeviceWork]) -> float:
        """The strategy's share is for as many answers as there are prompts; fewer have less."""
        num_decoding = sum(model.num_decoding for model in decoding)
        num_reading = sum(model.num_wanting for model in reading)
        return self._settings.decode_share * min(1.0, num_decoding / num_reading)


def _decoding(models: Sequence[DeviceWork]) -> list[DeviceWork]:
    return [model for model in models if model.num_decoding]


def _each(
    models: Sequence[DeviceWork],
    work: Callable[[DeviceWork], Callable[[Outbox], None]],
    outbox: Outbox,
) -> None:
    for model in models:
        model.guarded(work(model), outbox)
