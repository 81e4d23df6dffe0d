"""The one thread that touches MLX: arrays are made, computed and freed here and nowhere else.

    loop ──commands──► inbox ─► [ take commands ─► step every model ─► post news ] ─► loop

It runs one long job, so that a step costs no hop between threads, and wakes the loop once a step
for all requests together. What one model raises ends that model's requests; the thread goes on.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from maxi_mlx.core.errors import EngineFailed, Unavailable
from maxi_mlx.core.settings import Backend
from maxi_mlx.engine import device
from maxi_mlx.engine.mailbox import Outbox, deliver
from maxi_mlx.engine.status import MemoryStatus

if TYPE_CHECKING:
    from maxi_mlx.engine.scheduler import Scheduler

logger = logging.getLogger(__name__)

T = TypeVar("T")

_READING_PERIOD_S = 0.25


@dataclass(frozen=True, slots=True)
class SchedulerReading:
    """One model's figures, as of the last reading."""

    num_running: int
    num_waiting: int
    kv_cache_bytes: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What the device thread last said of itself. Any thread may read it."""

    memory: MemoryStatus | None
    models: dict[str, SchedulerReading]
    fault: str | None


class DeviceThread:
    """Owns the thread, its inbox and the list of loaded models."""

    def __init__(self, backend: Backend, *, memory_share: float) -> None:
        self._backend = backend
        self._memory_share = memory_share
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="device")
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._schedulers: list[Scheduler] = []
        self._stopping = False
        self._fault: str | None = None
        self._read_at_s = 0.0
        self._job: Future[None] | None = None
        self.limit_bytes = 0
        self.reading = DeviceReading(None, {}, None)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._job = self._executor.submit(self._run, loop)

    async def prepare(self) -> None:
        """Chooses the backend and imports MLX, which takes seconds. Raises SetupError."""
        await self.call(self._prepare)

    async def stop(self) -> None:
        def leave() -> None:
            self._stopping = True

        if self._job is not None:
            self._inbox.put(leave)
            await asyncio.wrap_future(self._job)
        # MLX tidies up when the thread ends; the interpreter must still be whole then.
        await asyncio.to_thread(self._executor.shutdown)

    async def call(self, function: Callable[[], T]) -> T:
        """Runs a function on the thread, between two steps."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

        self._inbox.put(run)
        return await asyncio.wrap_future(future)

    def post(self, command: Callable[[], None]) -> None:
        """Leaves a command and does not wait."""
        self._inbox.put(command)

    def wake(self) -> None:
        """Makes an idle thread look again, after a row was cancelled."""
        self._inbox.put(lambda: None)

    # -- on the device thread ----------------------------------------------------------------

    def add(self, scheduler: Scheduler) -> None:
        self._schedulers.append(scheduler)

    def remove(self, scheduler: Scheduler) -> None:
        self._schedulers.remove(scheduler)

    def memory_left_bytes(self) -> int:
        """What may still be taken, by our own limit and by what the machine has free."""
        return min(
            self.limit_bytes - device.memory(self.limit_bytes).active_bytes,
            device.available_bytes(),
        )

    def _prepare(self) -> None:
        device.prepare(self._backend)
        device.select()
        self.limit_bytes = int(device.describe().memory_bytes * self._memory_share)
        # What the first model needs, imported while nobody waits for it.
        import maxi_mlx.engine.scheduler  # noqa: F401

        self._read(force=True)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping:
            self._take_commands(wait=not any(s.has_work for s in self._schedulers))
            outbox = self._step_all()
            self._read()
            if outbox:
                loop.call_soon_threadsafe(deliver, outbox)
        outbox = []
        for scheduler in self._schedulers:
            scheduler.fail_all(Unavailable("The server is shutting down."), outbox)
        self._schedulers.clear()
        loop.call_soon_threadsafe(deliver, outbox)

    def _take_commands(self, *, wait: bool) -> None:
        if wait:
            self._read(force=True)
            self._execute(self._inbox.get())
        while True:
            try:
                command = self._inbox.get_nowait()
            except queue.Empty:
                return
            self._execute(command)

    def _execute(self, command: Callable[[], None]) -> None:
        try:
            command()
        except Exception as error:
            logger.exception("a command to the device thread failed")
            self._fault = f"{type(error).__name__}: {error}"

    def _step_all(self) -> Outbox:
        """One step of every model that has work. A method of its own, so that no variable of the
        long-lived loop keeps an unloaded model in memory."""
        outbox: Outbox = []
        for scheduler in self._schedulers:
            if scheduler.has_work:
                self._step(scheduler, outbox)
        return outbox

    def _step(self, scheduler: Scheduler, outbox: Outbox) -> None:
        try:
            scheduler.step(outbox)
        except Exception as error:
            logger.exception("%s: a step failed", scheduler.model.entry.id)
            scheduler.fault = f"{type(error).__name__}: {error}"
            scheduler.fail_all(EngineFailed(f"The engine failed: {error}"), outbox)

    def _read(self, *, force: bool = False) -> None:
        """Publishes figures now and then; the loop never asks MLX itself."""
        now_s = time.monotonic()
        if not force and now_s - self._read_at_s < _READING_PERIOD_S:
            return
        self._read_at_s = now_s
        if not self.limit_bytes:
            return  # MLX is not there yet
        models = {
            s.model.entry.id: SchedulerReading(
                s.num_running, s.num_waiting, s.kv_cache_bytes, s.fault
            )
            for s in self._schedulers
        }
        self.reading = DeviceReading(device.memory(self.limit_bytes), models, self._fault)
