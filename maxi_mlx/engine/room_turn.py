"""Whose turn it is to make room for a load: one after the other, in the order in which they came.

A model over a base has its base loaded within its own turn. If it held the base before, or let
others in between, two of them could wait for each other's base to go, or unload it in turns for
ever. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from maxi_mlx.core.models import ModelEntry


class RoomTurn:
    def __init__(self) -> None:
        self._holder: ModelEntry | None = None
        self._num_inside = 0
        self._waiting: deque[tuple[ModelEntry, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, entry: ModelEntry) -> AsyncIterator[None]:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        self._let_in()
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._waiting = deque(each for each in self._waiting if each[1] is not future)
            else:
                self._leave()
            raise
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        self._num_inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        for _ in range(len(self._waiting)):
            entry, future = self._waiting.popleft()
            if future.done():  # cancelled
                continue
            if self._num_inside and not self._is_base_of_holder(entry):
                self._waiting.append((entry, future))
                continue
            if not self._num_inside:
                self._holder = entry
            self._num_inside += 1
            future.set_result(None)

    def _is_base_of_holder(self, entry: ModelEntry) -> bool:
        return self._holder is not None and self._holder.base == entry
