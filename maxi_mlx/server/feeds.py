"""What the engine is asked for right now, and how fast its tokens come. Knows no HTTP."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from maxi_mlx.core.errors import MaxiError, Unavailable
from maxi_mlx.server.record import RequestRecord

RATE_S = 2.0
_SLOTS_A_SECOND = 10

Result = TypeVar("Result")


class UnderWay(Protocol):
    """One request's work, which can be ended early; whoever waits for it gets the reason."""

    @property
    def record(self) -> RequestRecord: ...

    def end(self, reason: MaxiError | None = None) -> None: ...


class Feeds:
    """Lives on the event loop. Each feed is here as long as it lasts; `num_tokens` were sent since
    the start, also for those that are gone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.num_tokens = 0
        self._clock = clock
        self._all: dict[UnderWay, None] = {}  # the oldest first
        self._slots: deque[list[int]] = deque()  # [tenth of a second, tokens]

    def __iter__(self) -> Iterator[UnderWay]:
        return iter(tuple(self._all))

    def add(self, feed: UnderWay) -> None:
        self._all[feed] = None

    def discard(self, feed: UnderWay) -> None:
        self._all.pop(feed, None)

    def get(self, id: str) -> UnderWay | None:
        return next((feed for feed in self._all if feed.record.id == id), None)

    def count_tokens(self, number: int) -> None:
        self.num_tokens += number
        slot = self._slot()
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append([slot, 0])
            self._forget(slot)
        self._slots[-1][1] += number

    def tokens_per_second(self) -> float:
        """Of all requests together, over the last two seconds."""
        self._forget(self._slot())
        return sum(tokens for _, tokens in self._slots) / RATE_S

    async def waited_for(self, record: RequestRecord, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of a request that has no events; it can be ended like the others."""
        waiting = _Waiting(record, asyncio.create_task(work))
        self.add(waiting)
        try:
            return await waiting.result()
        finally:
            self.discard(waiting)

    def _slot(self) -> int:
        return int(self._clock() * _SLOTS_A_SECOND)

    def _forget(self, slot: int) -> None:
        while self._slots and self._slots[0][0] <= slot - RATE_S * _SLOTS_A_SECOND:
            self._slots.popleft()


class _Waiting(Generic[Result]):
    """A request whose answer comes in one piece."""

    def __init__(self, record: RequestRecord, task: asyncio.Task[Result]) -> None:
        self.record = record
        self._task = task
        self._end_reason: MaxiError | None = None

    def end(self, reason: MaxiError | None = None) -> None:
        self._end_reason = reason or Unavailable("The server is shutting down.")
        self._task.cancel()

    async def result(self) -> Result:
        try:
            return await self._task
        except asyncio.CancelledError:
            if self._end_reason is None:
                raise  # the client left, and the wait for the task has ended it
            raise self._end_reason from None
