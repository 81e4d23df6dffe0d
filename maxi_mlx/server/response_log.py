"""The events of responses that are made in the background, for any number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence


class EventLog:
    """The frames of one response's stream; the number of an event is its place. Lives on the
    event loop."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.num_bytes = 0
        self.has_ended = False
        self._changed = asyncio.Event()

    def add(self, frames: Sequence[bytes], *, is_end: bool) -> None:
        self.frames += frames
        self.num_bytes += sum(map(len, frames))
        self.has_ended = is_end
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def is_read_up_to(self, place: int) -> bool:
        return self.has_ended and place >= len(self.frames)

    async def since(self, place: int, *, timeout_s: float) -> Sequence[bytes]:
        """The frames from ``place`` on; waits for one, and gives none if time runs out."""
        if place >= len(self.frames) and not self.has_ended:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                return ()
        return self.frames[place:]
