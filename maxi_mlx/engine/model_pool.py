"""The models in memory: loads one on its first request, makes room for it, and unloads it when
nobody has used it for a while.

    request ─lend─► slot ─► [ need ─► room: prefixes, idle models, or wait ─► load ] ─► handle

Lives on the event loop; the loading runs on the device thread, a piece at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from maxi_mlx.core.errors import EngineFailed, InvalidRequest, Unavailable
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.device_work import DeviceWork
from maxi_mlx.engine.loading import Handle, Loading, LoadingWork, Steps
from maxi_mlx.engine.memory_need import MemoryNeed, check_ever_fits, need_of
from maxi_mlx.engine.memory_room import MemoryRoom, gigabytes
from maxi_mlx.engine.model_history import Histories
from maxi_mlx.engine.model_slot import (
    Hold,
    Slot,
    first_to_go,
    in_use,
    is_older,
    what_would_help,
)
from maxi_mlx.engine.room_turn import RoomTurn
from maxi_mlx.engine.status import ModelHistory

logger = logging.getLogger(__name__)

_LONGEST_REASON = 500  # characters; MLX names every parameter that is missing
# A load waits so long for models that are in use, before others' new requests wait for it.
_PATIENCE_S = 2.0
_LONGEST_WAIT_S = 300.0
# Rows that end give memory back without anybody telling the pool.
_LOOK_AGAIN_S = 0.25

H = TypeVar("H", bound=Handle)

# The steps that load a folder, taken on the device thread.
Load = Callable[[Loading, DeviceThread], Steps[H]]


class ModelPool:
    """Owns every loaded model. What a load needs is reserved before it begins, so that no two
    count on the same free memory."""

    def __init__(self, settings: Settings, device_thread: DeviceThread) -> None:
        self._settings = settings
        self._device_thread = device_thread
        self._slots: dict[ModelEntry, Slot] = {}
        self._holds: dict[tuple[Path, ...], Hold] = {}
        self._histories = Histories()
        # Whoever waits for room has it first: others come after.
        self._room_turn = RoomTurn()
        self._change = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._unloading: set[asyncio.Task[None]] = set()
        # For files and tokenizers of models on their way.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="loading")
        self._is_closed = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(self._slots.values())

    @property
    def histories(self) -> tuple[ModelHistory, ...]:
        return self._histories.all

    def hold(self, entry: ModelEntry, hold: Hold) -> None:
        """The owner wants this folder's model to stay, and with it its base."""
        self._holds[entry.folders] = hold
        if entry in self._slots:
            self._slots[entry].hold = hold
            self._tell_change()
        if entry.base is not None:
            self.hold(entry.base, hold)

    @asynccontextmanager
    async def lend(
        self, entry: ModelEntry, load: Load[H], *, keep_alive_s: float | None = None
    ) -> AsyncIterator[H]:
        """Loads the model if need be, always by the same ``load``; it stays in memory at least as
        long as it is lent, and for ``keep_alive_s`` after that; None: as long as was said last."""
        slot = await self._taken(entry, load)
        try:
            await self._loaded(slot)
            if keep_alive_s is not None:
                slot.keep_alive_s = keep_alive_s
            yield cast(H, slot.handle)
        finally:
            slot.num_users -= 1
            slot.used_at_s = _now_s()
            self._tell_change()

    async def _taken(self, entry: ModelEntry, load: Load[Handle]) -> Slot:
        """The model's slot with one user more: between looking it up and taking it nothing waits,
        so that nobody can unload it there."""
        while True:
            if self._is_closed:
                raise Unavailable("The server is shutting down.")
            slot = self._slots.get(entry)
            if slot is None or not slot.is_leaving:
                break
            await self._change.wait()
        if slot is None:
            slot = self._slots[entry] = self._new_slot(entry)
            slot.loading = asyncio.create_task(self._load(slot, load))
        slot.num_users += 1
        return slot

    def _new_slot(self, entry: ModelEntry) -> Slot:
        own = entry.settings
        hold = self._holds.get(entry.folders, "pinned" if own.is_pinned else "none")
        keep_alive_s = self._settings.keep_alive_s if own.keep_alive_s is None else own.keep_alive_s
        return Slot(entry, keep_alive_s, _now_s(), hold)

    async def _loaded(self, slot: Slot) -> None:
        assert slot.loading is not None
        try:
            # A caller that leaves must not end the load that others wait for.
            await asyncio.shield(slot.loading)
        except asyncio.CancelledError:
            if not slot.loading.cancelled():
                raise
            raise Unavailable("The server is shutting down.") from None

    async def close(self) -> None:
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        loads = [slot.loading for slot in self.slots if slot.loading is not None]
        for task in loads:
            task.cancel()
        await asyncio.gather(*loads, *self._unloading, return_exceptions=True)
        self._slots.clear()
        self._tell_change()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- loading -----------------------------------------------------------------------------

    async def _load(self, slot: Slot, load: Load[Handle]) -> None:
        started_s = time.monotonic()
        try:
            slot.handle = await self._loaded_by(slot, load)
            slot.loaded_at_s = _now_s()
        except BaseException as error:
            if isinstance(error, Exception):  # else the server is ending
                self._histories.count_failed_load(slot.entry.id)
            # The next request tries again: the folder may have been mended meanwhile.
            self._slots.pop(slot.entry, None)
            self._let_base_go(slot)
            raise
        finally:
            slot.used_at_s = _now_s()
            self._tell_change()
        took_s = time.monotonic() - started_s
        self._histories.count_load(slot.entry.id, took_s)
        logger.info("loaded %s in %.1f s", slot.entry.id, took_s)

    async def _loaded_by(self, slot: Slot, load: Load[Handle]) -> Handle:
        entry, settings = slot.entry, self._settings
        self._retire_older(entry)
        need = await asyncio.to_thread(
            need_of, entry, kv_bits=settings.kv_bits, max_kv_size=settings.max_kv_size
        )
        async with self._room_turn.of(entry):
            if entry.base is not None:
                slot.base = await self._taken(entry.base, load)
                await self._loaded(slot.base)
            work = await self._begun(slot, load, need)
        slot.has_room = True
        try:
            return await asyncio.wrap_future(work.handle)
        except asyncio.CancelledError:
            self._device_thread.post(partial(self._device_thread.abandon_load, work))
            raise
        except EngineFailed as error:
            missing = await asyncio.to_thread(_missing, entry.folders)
            reason = textwrap.shorten(error.message, _LONGEST_REASON)
            if missing is not None:
                reason = f"its folder {missing} was moved or deleted meanwhile"
            raise EngineFailed(f"{entry.id} could not be loaded: {reason}") from None

    async def _begun(self, loading: Slot, load: Load[Handle], need: MemoryNeed) -> LoadingWork[Any]:
        """The load, once there was room for it. Raises DoesNotFit or Unavailable where there will
        be none."""
        entry = loading.entry
        check_ever_fits(entry, need, self._device_thread.limit_bytes)
        since_s = time.monotonic()
        try:
            while True:
                work = self._work(loading, load, need)
                begin = partial(self._device_thread.begin_load, work)
                room = await self._device_thread.call(begin)
                if room is None:
                    return work
                idle = first_to_go(self._slots.values())
                if idle is not None:
                    await self._evict(idle)
                    continue
                waited_s = time.monotonic() - since_s
                self._check_hope(entry, need, room, waited_s=waited_s)
                if waited_s > _PATIENCE_S:
                    self._ask_to_leave(need.num_bytes - room.left_bytes, keep=loading.base)
                await self._wait_for_change(_LOOK_AGAIN_S)
        finally:
            for slot in self._slots.values():
                slot.is_leaving = False
            self._tell_change()

    def _work(self, slot: Slot, load: Load[Handle], need: MemoryNeed) -> LoadingWork[Handle]:
        loading = Loading(
            slot.entry,
            base=slot.base.handle if slot.base is not None else None,
            threads=self._threads,
            reserved_bytes=need.num_bytes,
            free=self._device_thread.free_prefixes,
        )
        steps = load(loading, self._device_thread)
        return LoadingWork(loading, steps, wake=self._device_thread.post)

    def _ask_to_leave(self, missing_bytes: int, *, keep: Slot | None) -> None:
        for slot in in_use(slot for slot in self.slots if slot is not keep):
            if missing_bytes <= 0:
                return
            for each in (slot, *self._over(slot)):
                each.is_leaving = True
            missing_bytes -= slot.entry.weight_bytes

    def _check_hope(
        self, entry: ModelEntry, need: MemoryNeed, room: MemoryRoom, *, waited_s: float
    ) -> None:
        """Whether waiting for others' requests can help: not where pinned models, or other
        programs, have what is missing."""
        others = [slot for slot in self.slots if slot.entry not in (entry, entry.base)]
        busy = in_use(others)
        is_loading = any(slot.has_room and not slot.is_ready for slot in others)
        pinned_bytes = sum(slot.entry.weight_bytes for slot in others if slot.hold == "pinned")
        pinned_bytes += entry.all_weight_bytes - entry.weight_bytes  # its base stays beside it
        coming_bytes = sum(slot.entry.weight_bytes for slot in busy)
        coming_bytes += sum(f.kv_cache_bytes for f in self._device_thread.reading.models.values())
        coming_bytes += room.promised_bytes  # to the same requests
        has_hope = (
            need.num_bytes <= self._device_thread.limit_bytes - pinned_bytes
            and need.num_bytes <= room.host_bytes + coming_bytes
        )
        if (is_loading or (busy and has_hope)) and waited_s < _LONGEST_WAIT_S:
            return
        raise Unavailable(
            f"{entry.id} needs {need}, and {gigabytes(room.left_bytes)} are free now, {room.bound}."
            + what_would_help(others)
        )

    # -- making room -------------------------------------------------------------------------

    async def make_room(self, num_bytes: int) -> None:
        """Has stored prefixes and idle models make way for a prompt, as far as they can. A look at
        figures that are a moment old is enough where there is plenty."""
        while num_bytes > self._device_thread.reading.left_bytes:
            make = partial(self._device_thread.make_room, num_bytes)
            room = await self._device_thread.call(make)
            idle = first_to_go(self._slots.values())
            if num_bytes <= room.left_bytes or idle is None:
                return
            await self._evict(idle)

    def _evict(self, slot: Slot) -> asyncio.Task[None]:
        """Unloads an idle model for others' sake."""
        self._histories.count_eviction(slot.entry.id)
        return self._unload(slot)

    def _retire_older(self, entry: ModelEntry) -> None:
        """What was loaded from this folder before its files changed goes when it is idle."""
        for slot in self.slots:
            if is_older(slot.entry, entry):
                slot.hold, slot.keep_alive_s = "none", 0.0
        self._tell_change()

    async def unload(self, entry: ModelEntry) -> None:
        """By request: once nobody uses it, and before it what shares its weights. Raises
        InvalidRequest for one that is pinned."""
        slot = self._slots.get(entry)
        if slot is None:
            return
        if slot.hold == "pinned":
            raise InvalidRequest(
                f"{entry.id} is pinned (--pin, or pin in its settings) and stays in memory. Start "
                "the server without that to be able to unload it.",
                param="keep_alive",
            )
        for each in (*self._over(slot), slot):
            if each.is_idle:
                await self._unload(each)
            else:
                each.keep_alive_s = 0.0

    def _over(self, base: Slot) -> list[Slot]:
        """The models that share its weights."""
        return [slot for slot in self.slots if slot.base is base]

    def _let_base_go(self, slot: Slot) -> None:
        if slot.base is not None:
            base, slot.base = slot.base, None
            base.num_users -= 1
            base.used_at_s = max(base.used_at_s, slot.used_at_s)

    async def release(self, folder: Path) -> None:
        """Unloads what was loaded from a folder that is to go. Raises InvalidRequest where that is
        in use, or pinned."""
        slots = [slot for slot in self.slots if slot.entry.path == folder]
        for slot in sorted(slots, key=lambda slot: slot.base is None):
            if not slot.is_idle:
                raise InvalidRequest(
                    f"{slot.entry.id} is in use: wait for its answers, or stop them.", param="model"
                )
            await self.unload(slot.entry)

    def _unload(self, slot: Slot) -> asyncio.Task[None]:
        """Takes an idle model out of the table at once: a request that comes now loads it anew."""
        assert not slot.num_users, "a model in use stays"
        assert slot.handle is not None
        del self._slots[slot.entry]
        # The last reference but MLX's own.
        box = [slot.handle.work]
        slot.handle = None
        logger.info("unloading %s", slot.entry.id)
        task = asyncio.create_task(self._unload_on_device(slot, box))
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)
        return task

    async def _unload_on_device(self, slot: Slot, box: list[DeviceWork]) -> None:
        try:
            await self._device_thread.call(partial(self._device_thread.unload, box))
        finally:
            self._let_base_go(slot)
        self._tell_change()

    # -- time --------------------------------------------------------------------------------

    async def _wait_for_change(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._change.wait(), timeout_s)

    def _tell_change(self) -> None:
        """Something may have become idle or free: whoever waits looks again, and the alarm is set
        to the model that goes next by itself."""
        changed, self._change = self._change, asyncio.Event()
        changed.set()
        if self._is_closed:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        times = [slot.expires_at_s for slot in self.slots if slot.expires_at_s is not None]
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_at(min(times), self._unload_expired) if times else None

    def _unload_expired(self) -> None:
        now_s = _now_s()
        for slot in self.slots:
            if slot.expires_at_s is not None and slot.expires_at_s <= now_s:
                self._unload(slot)
        self._tell_change()


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _missing(folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if not os.path.isdir(folder)), None)
