"""Those who watch the server's status as a stream, which has no end of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Watchers:
    """Lives on the event loop. `end` ends all their streams: the server waits for answers, not for
    whoever only watches."""

    def __init__(self) -> None:
        self.num_watching = 0
        self._ended = asyncio.Event()

    @property
    def have_ended(self) -> bool:
        return self._ended.is_set()

    def end(self) -> None:
        self._ended.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        self.num_watching += 1
        try:
            yield
        finally:
            self.num_watching -= 1

    async def pause(self, seconds: float) -> None:
        """Sleeps; not for so long where the end comes before."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            pass
