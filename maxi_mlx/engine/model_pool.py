"""The models in memory: loads one on its first request, and makes room for it first.

Lives on the event loop; the loading itself runs on the device thread.
"""

from __future__ import annotations

import asyncio
import logging
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar, cast

from maxi_mlx.core.errors import DoesNotFit, EngineFailed, MaxiError, Unavailable
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.device_work import DeviceWork

logger = logging.getLogger(__name__)

# Weights need a little more than their own size: buffers of one step, the first row's cache.
_LOAD_MARGIN = 1.05
_LONGEST_REASON = 500  # characters; MLX names every parameter that is missing


class Handle(Protocol):
    """A loaded model that can be used while the pool lends it."""

    @property
    def work(self) -> DeviceWork: ...


H = TypeVar("H", bound=Handle)

# Loads a folder, on the device thread.
Load = Callable[[ModelEntry, DeviceThread], H]


@dataclass(slots=True, eq=False)
class Slot:
    """One model, loaded or on its way. ``num_users`` requests keep it from being evicted."""

    entry: ModelEntry
    loading: asyncio.Task[Handle]
    num_users: int = 0
    used_at_s: float = field(default_factory=time.monotonic)

    @property
    def is_ready(self) -> bool:
        return self.loading.done() and not self.loading.cancelled() and not self.loading.exception()


class ModelPool:
    """Owns every loaded model. One load at a time, so that no two share the same free memory."""

    def __init__(self, device_thread: DeviceThread) -> None:
        self._device_thread = device_thread
        self._slots: dict[ModelEntry, Slot] = {}
        self._load_lock = asyncio.Lock()
        self._is_closed = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(self._slots.values())

    @asynccontextmanager
    async def lend(self, entry: ModelEntry, load: Load[H]) -> AsyncIterator[H]:
        """Loads the model if need be, always by the same ``load``; it stays in memory at least as
        long as it is lent."""
        if self._is_closed:
            raise Unavailable("The server is shutting down.")
        slot = self._slots.get(entry)
        if slot is None:
            slot = Slot(entry, asyncio.create_task(self._load(entry, load)))
            self._slots[entry] = slot
            slot.loading.add_done_callback(lambda task: self._forget_failed(entry, task))
        slot.num_users += 1
        slot.used_at_s = time.monotonic()
        try:
            yield cast(H, await self._loaded(slot))
        finally:
            slot.num_users -= 1
            slot.used_at_s = time.monotonic()

    async def _loaded(self, slot: Slot) -> Handle:
        try:
            # A caller that leaves must not end the load that others wait for.
            return await asyncio.shield(slot.loading)
        except asyncio.CancelledError:
            if not slot.loading.cancelled():
                raise
            raise Unavailable("The server is shutting down.") from None

    async def close(self) -> None:
        self._is_closed = True
        for slot in self.slots:
            slot.loading.cancel()
        await asyncio.gather(*(slot.loading for slot in self.slots), return_exceptions=True)
        self._slots.clear()

    def _forget_failed(self, entry: ModelEntry, task: asyncio.Task[Handle]) -> None:
        """The next request tries again: the folder may have been mended meanwhile."""
        if task.cancelled() or task.exception() is not None:
            self._slots.pop(entry, None)

    async def _load(self, entry: ModelEntry, load: Load[Handle]) -> Handle:
        async with self._load_lock:
            started_s = time.monotonic()
            await self._unload_older(entry)
            await self._make_room(entry)
            try:
                handle = await self._device_thread.call(lambda: self._load_on_device(entry, load))
            except MaxiError as error:
                # Half a model may be in memory.
                await self._device_thread.call(self._device_thread.free_memory)
                if not isinstance(error, EngineFailed):
                    raise
                reason = textwrap.shorten(error.message, _LONGEST_REASON)
                raise EngineFailed(f"{entry.id} could not be loaded: {reason}") from None
            logger.info("loaded %s in %.1f s", entry.id, time.monotonic() - started_s)
            return handle

    def _load_on_device(self, entry: ModelEntry, load: Load[Handle]) -> Handle:
        handle = load(entry, self._device_thread)
        self._device_thread.add(handle.work)
        return handle

    # -- making room -------------------------------------------------------------------------

    async def _make_room(self, entry: ModelEntry) -> None:
        needed_bytes = int(entry.weight_bytes * _LOAD_MARGIN)
        limit_bytes = self._device_thread.limit_bytes
        if needed_bytes > limit_bytes:
            raise DoesNotFit(
                f"{entry.id} needs {_gigabytes(needed_bytes)}, but models may take "
                f"{_gigabytes(limit_bytes)} on this machine. Use a smaller or a more strongly "
                "quantised model.",
                param="model",
            )
        while True:
            left_bytes = await self._device_thread.call(self._device_thread.memory_left_bytes)
            if needed_bytes > left_bytes:
                free = partial(self._device_thread.free_prefixes, needed_bytes - left_bytes)
                await self._device_thread.call(free)
                left_bytes = await self._device_thread.call(self._device_thread.memory_left_bytes)
            if needed_bytes <= left_bytes:
                return
            idle = self._idle_longest()
            if idle is None:
                raise Unavailable(
                    f"{entry.id} needs {_gigabytes(needed_bytes)}, and {_gigabytes(left_bytes)} "
                    "are free now. Try again when the running answers are done, or close other "
                    "programs."
                )
            await self._unload(idle)

    def _idle_longest(self) -> ModelEntry | None:
        idle = [s for s in self._slots.values() if s.is_ready and not s.num_users]
        return min(idle, key=lambda slot: slot.used_at_s).entry if idle else None

    async def _unload_older(self, entry: ModelEntry) -> None:
        """What was loaded from this folder before its files changed."""
        for other in [slot.entry for slot in self._slots.values() if slot.is_ready]:
            slot = self._slots[other]
            if other.path == entry.path and other != entry and not slot.num_users:
                await self._unload(other)

    async def _unload(self, entry: ModelEntry) -> None:
        # Out of the table first: a request that comes now loads the model anew.
        work = self._slots.pop(entry).loading.result().work
        logger.info("unloading %s", entry.id)
        await self._device_thread.call(partial(self._device_thread.remove, work))
        # The last reference but MLX's own; then its buffers can go back to the system.
        del work
        await self._device_thread.call(self._device_thread.free_memory)


def _gigabytes(num_bytes: int) -> str:
    return f"{max(num_bytes, 0) / 2**30:.1f} GiB"
