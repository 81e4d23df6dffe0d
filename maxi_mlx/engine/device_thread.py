"""The one thread that touches MLX: arrays are made, computed and freed here and nowhere else.

    loop ──commands──► inbox ─► [ take commands ─► a turn of every model ─► post news ] ─► loop

It runs one long job, so that a step costs no hop between threads, and wakes the loop once a turn
for all requests together. What one model raises ends that model's requests; the thread goes on.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from maxi_mlx.core.errors import Unavailable
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import device
from maxi_mlx.engine.device_work import DeviceWork, WorkFigures
from maxi_mlx.engine.host_memory import footprint_bytes
from maxi_mlx.engine.inbox import Call, Inbox
from maxi_mlx.engine.loading import LoadingWork
from maxi_mlx.engine.mailbox import Outbox, deliver
from maxi_mlx.engine.memory_room import HostReading, MemoryRoom, gigabytes, measure_room
from maxi_mlx.engine.status import MemoryStatus
from maxi_mlx.kv_cache.counts import CacheStats
from maxi_mlx.kv_cache.disk.tier import DiskTier

if TYPE_CHECKING:
    from maxi_mlx.engine.cache_form import CacheForm
    from maxi_mlx.engine.language_model import LanguageModel
    from maxi_mlx.engine.prefixes import Prefixes
    from maxi_mlx.engine.rota import Rota
    from maxi_mlx.kv_cache.store import PrefixStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_READING_PERIOD_S = 0.25
_HOST_PERIOD_S = 1.0  # asking macOS takes some milliseconds; what we take ourselves is known
_RESTORE_PATIENCE_S = 0.5


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What the device thread last said of itself. Any thread may read it."""

    memory: MemoryStatus | None
    left_bytes: int  # what may still be taken
    models: dict[ModelEntry, WorkFigures]
    prefixes: CacheStats  # of all models
    prefix_limit_bytes: int
    process_bytes: int


class DeviceThread:
    """Owns the thread, its inbox and the list of loaded models."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._disk: DiskTier | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="device")
        self._inbox = Inbox()
        self._rota: Rota | None = None
        self._store: PrefixStore | None = None
        self._works: list[DeviceWork] = []
        self._loads: list[LoadingWork[Any]] = []
        self._host: HostReading | None = None
        self._host_read_at_s = -_HOST_PERIOD_S
        self._is_stopping = False
        self._read_at_s = 0.0
        self._rescue_at_s = 0.0
        self._job: Future[None] | None = None
        self.limit_bytes = 0
        self._process_bytes = 0
        self.reading = DeviceReading(None, 0, {}, CacheStats(), 0, 0)

    @property
    def fault(self) -> str | None:
        """Why the thread ended though nobody had asked it to."""
        if self._job is None or not self._job.done() or self._is_stopping:
            return None
        return f"the device thread ended: {self._job.exception()!r}"

    def start(self, loop: asyncio.AbstractEventLoop, disk: DiskTier | None) -> None:
        self._disk = disk
        self._job = self._executor.submit(self._run, loop)

    async def prepare(self) -> None:
        """Chooses the backend and imports MLX, which takes seconds. Raises SetupError."""
        await self.call(self._prepare)

    async def stop(self) -> None:
        """Ends the thread; what is still running ends with an error that says so."""

        def leave() -> None:
            self._is_stopping = True

        if self._job is not None:
            self.post(leave)
            await asyncio.wait([asyncio.wrap_future(self._job)])
        # MLX tidies up when the thread ends; the interpreter must still be whole then.
        await asyncio.to_thread(self._executor.shutdown)

    async def call(self, function: Callable[[], T]) -> T:
        """Runs a function on the thread, between two turns. Raises MaxiErrors alone."""
        call = Call(function)
        self._inbox.put(call)
        return await asyncio.wrap_future(call.future)

    async def answers_within(self, timeout_s: float) -> bool:
        """Whether it comes to a command in that time: not where something hangs on the device, nor
        after its end."""
        try:
            await asyncio.wait_for(self.call(lambda: None), timeout_s)
        except (TimeoutError, Unavailable):
            return False
        return True

    def post(self, function: Callable[[], None]) -> None:
        """Leaves something to be done and does not wait."""
        self._inbox.put(Call(function))

    # -- on the device thread ----------------------------------------------------------------

    def open_prefixes(self, model: LanguageModel, form: CacheForm) -> Prefixes:
        from maxi_mlx.engine.cache_namespace import cache_namespace
        from maxi_mlx.engine.prefixes import Prefixes

        assert self._store is not None
        name = cache_namespace(model.entry, kv_bits=form.kv_bits, max_kv_size=form.max_kv_size)
        store = self._store.open(name, model.new_cache)
        return Prefixes(store, free=self.free_prefixes, close=partial(self._store.close, store))

    def add(self, work: DeviceWork) -> None:
        self._works.append(work)
        self._set_prefix_budget()

    def remove(self, work: DeviceWork) -> None:
        self._works.remove(work)
        work.close()
        self._set_prefix_budget()

    def free_prefixes(self, num_bytes: int) -> None:
        """Gives up stored prefixes, of whatever model, as far as so many bytes need it."""
        assert self._store is not None
        if self._store.num_bytes:
            self._store.shrink_to(max(self._store.num_bytes - num_bytes, 0))
            self.free_memory()

    def _keep_to_limit(self, outbox: Outbox) -> None:
        """What was kept in a turn may be more than rows have left of the memory: then prefixes go.
        Where that is not enough, the newest request ends, before the system ends the process."""
        if self._store is None or self._host is None:
            return
        room = self.room()
        if room.left_bytes < 0 and self._store.num_bytes:
            self.free_prefixes(-room.left_bytes)
            room = self.room()
        if room.left_at_last_bytes < 0 and time.monotonic() >= self._rescue_at_s:
            self._fail_newest(outbox)
            # What was given up shows in the figures by then.
            self._rescue_at_s = time.monotonic() + _READING_PERIOD_S

    def _fail_newest(self, outbox: Outbox) -> None:
        self.free_memory()
        room = self.room()  # by figures of this moment, and with nothing kept for later use
        if room.left_at_last_bytes >= 0:
            return
        running = [(work.newest_s, work) for work in self._works if work.newest_s is not None]
        if not running:
            return
        _, work = max(running, key=lambda each: each[0] or 0.0)
        logger.error("%s: the memory is at its end; its newest request ends", work.entry.id)
        message = (
            f"The memory is at its end: {gigabytes(-room.left_at_last_bytes)} too much, "
            f"{room.bound}. Send fewer or shorter requests at once, or close other programs."
        )
        work.guarded(partial(work.fail_newest, lambda: Unavailable(message)), outbox)

    def _set_prefix_budget(self) -> None:
        """A share of what the weights leave, unless the owner named a size."""
        assert self._store is not None
        weight_bytes = sum(work.entry.weight_bytes for work in self._works)
        left_bytes = max(self.limit_bytes - weight_bytes, 0)
        budget_bytes = self._settings.cache_memory_bytes
        if budget_bytes is None:
            budget_bytes = int(left_bytes * self._settings.scheduler.cache_share)
        self._store.budget_bytes = min(budget_bytes, left_bytes)

    def room(self, *, beside: ModelEntry | None = None) -> MemoryRoom:
        """What may still be taken, by the rows of ``beside`` or by anything new. The machine's part
        is a moment old, since asking for it costs a system call or a process."""
        works = [work for work in (*self._works, *self._loads) if work.entry != beside]
        assert self._host is not None
        return measure_room(
            limit_bytes=self.limit_bytes,
            share=self._settings.scheduler.memory_share,
            active_bytes=device.memory(self.limit_bytes).active_bytes,
            promised_bytes=sum(work.promised_bytes for work in works),
            host=self._host,
        )

    def memory_left_bytes(self, *, beside: ModelEntry | None = None) -> int:
        return self.room(beside=beside).left_bytes

    def make_room(self, num_bytes: int) -> MemoryRoom:
        """Gives up stored prefixes as far as so many bytes need it; says what there is then."""
        self._read(force=True)
        room = self.room()
        if num_bytes > room.left_bytes:
            self.free_prefixes(num_bytes - room.left_bytes)
            room = self.room()
        return room

    def begin_load(self, work: LoadingWork[Any]) -> MemoryRoom | None:
        """Starts a load, with what it may take reserved; else says what room there is."""
        needed_bytes = work.loading.reserved_bytes
        room = self.make_room(needed_bytes)
        if needed_bytes > room.left_bytes:
            return room
        self._loads.append(work)
        return None

    def abandon_load(self, work: LoadingWork[Any]) -> None:
        work.fail_all(lambda: Unavailable("The server is shutting down."), [])

    def is_idle_but_for(self, entry: ModelEntry) -> bool:
        """Whether nothing runs that would give memory back by ending, or is promised any: a load
        ends soon, and then is idle or runs."""
        others = (work for work in self._works if work.entry != entry)
        return not self._loads and not any(work.num_decoding or work.num_wanting for work in others)

    def unload(self, box: list[DeviceWork]) -> None:
        """Takes a model out and gives its memory back: the box holds the last reference."""
        self.remove(box[0])
        box.clear()
        self.free_memory()

    def free_memory(self) -> None:
        """Gives what nobody refers to any more back to the system."""
        import mlx.core as mx

        gc.collect()
        mx.clear_cache()
        self._read(force=True)

    def _prepare(self) -> None:
        device.prepare(self._settings.backend)
        device.select()
        self.limit_bytes = int(
            device.describe().memory_bytes * self._settings.scheduler.memory_share
        )
        # What the first model needs, imported while nobody waits for it.
        from maxi_mlx.engine.rota import Rota
        from maxi_mlx.kv_cache.store import PrefixStore

        self._rota = Rota(self._settings.scheduler)
        self._store = PrefixStore(
            budget_bytes=0, disk=self._disk, post=self.post, left_bytes=self.memory_left_bytes
        )
        self._set_prefix_budget()
        self._read(force=True)
        if not gc.get_freeze_count():
            # What is imported stays. To look through it for what can go takes 50 ms and more: at
            # every unload here, and now and then on any thread.
            gc.collect()
            gc.freeze()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while not self._is_stopping:
                has_work = any(work.has_work for work in (*self._works, *self._loads))
                if not has_work:
                    self._read(force=True)
                for command in self._inbox.take(timeout_s=self._patience_s(has_work)):
                    command.run()
                self._post(self._turn(), loop)
                self._read()
        finally:
            self._inbox.close()
            self._post(self._end_all(), loop)

    def _patience_s(self, has_work: bool) -> float | None:
        """How long to wait for commands: for ever with nothing to do, unless the disk is waited
        for, which has its time."""
        if has_work:
            return 0.0
        is_restoring = any(work.is_waiting_for_disk for work in self._works)
        return _RESTORE_PATIENCE_S if is_restoring else None

    def _turn(self) -> Outbox:
        """A method of its own, so that no variable of the long-lived loop keeps an unloaded model
        in memory."""
        if self._rota is None:
            return []
        outbox = self._rota.turn([*self._works, *self._loads])
        self._settle_loads()
        self._keep_to_limit(outbox)
        return outbox

    def _settle_loads(self) -> None:
        """Takes up what is loaded; what failed leaves nothing behind."""
        for load in [load for load in self._loads if load.is_done]:
            self._loads.remove(load)
            if load.loaded is not None:
                self.add(load.loaded.work)
            else:
                self.free_memory()
            load.tell()

    def _end_all(self) -> Outbox:
        outbox: Outbox = []
        for load in self._loads:
            load.fail_all(lambda: Unavailable("The server is shutting down."), outbox)
            load.tell()
        self._loads.clear()
        for work in self._works:
            work.fail_all(lambda: Unavailable("The server is shutting down."), outbox)
            work.close()  # what is stored is freed here, as all of MLX's arrays
        self._works.clear()
        return outbox

    def _post(self, outbox: Outbox, loop: asyncio.AbstractEventLoop) -> None:
        if outbox:
            loop.call_soon_threadsafe(deliver, outbox)

    def _read(self, *, force: bool = False) -> None:
        """Publishes figures now and then; the loop never asks MLX itself."""
        now_s = time.monotonic()
        if not self.limit_bytes or (not force and now_s - self._read_at_s < _READING_PERIOD_S):
            return
        self._read_at_s = now_s
        models = {work.entry: work.figures() for work in self._works}
        memory = device.memory(self.limit_bytes)
        if force or now_s - self._host_read_at_s >= _HOST_PERIOD_S:
            self._host, self._host_read_at_s = device.read_host(), now_s
            self._process_bytes = footprint_bytes()
        assert self._store is not None
        self.reading = DeviceReading(
            memory,
            self.room().left_bytes,
            models,
            self._store.stats(),
            self._store.budget_bytes,
            self._process_bytes,
        )
