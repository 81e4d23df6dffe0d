"""One request's events, gathered by a task of their own.

So a handler can wait for them with a time limit, and a reader that is slow holds up nobody: the
engine's generator is never left waiting. Knows neither HTTP nor a wire format.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from maxi_mlx.core.errors import EngineFailed, MaxiError, Unavailable
from maxi_mlx.core.events import Completed, Event, Failed, Started
from maxi_mlx.core.transcription import Transcribed, TranscriptionEvent, TranscriptionStarted
from maxi_mlx.server.feeds import Feeds
from maxi_mlx.server.record import RequestRecord

logger = logging.getLogger(__name__)


E = TypeVar("E", Event, TranscriptionEvent)
F = TypeVar("F", bound="Feed[Any]")


class Feed(Generic[E]):
    """Lives on the event loop. Its last event is always a good end (`Completed`, `Transcribed`) or
    `Failed`, whatever became of the generator; leaving the ``async with`` block ends generation.

    ``model`` is the one that answers, once that is known; until then, the one asked for. While it
    lasts, a feed is in ``among``, for whoever has to end them all.
    """

    def __init__(
        self,
        events: AsyncIterator[E],
        *,
        asked_model: str,
        record: RequestRecord,
        among: Feeds,
    ) -> None:
        self.model = asked_model
        self.has_ended = False
        self._events: AsyncIterator[E] = events
        self.record = record
        self._among = among
        self._arrived: list[E] = []
        self._wake = asyncio.Event()
        self._is_complete = False
        self._is_left = False
        self._end_reason: MaxiError | None = None

    async def __aenter__(self: F) -> F:
        self._task = asyncio.create_task(self._gather())
        self._task.add_done_callback(self._note_end)
        self._among.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._among.discard(self)
        self._is_left = True
        self._task.cancel()
        await asyncio.wait({self._task})
        # The task holds what ended it, whose frames hold this feed: a circle that would keep all
        # of the request in memory until the collector comes by.
        del self._task

    def end(self, reason: MaxiError | None = None) -> None:
        """Ends generation; the reader learns it by a last event, with ``reason`` in it."""
        self._end_reason = reason
        self._task.cancel()

    async def take(self, *, timeout_s: float | None = None) -> list[E]:
        """All events that have arrived; waits for the first, and gives none if time runs out."""
        if not self._wake.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                return []
        self._wake.clear()
        taken, self._arrived = self._arrived, []
        num_before = self.record.completion_tokens or 0
        for event in taken:
            self.record.observe(event)
            if isinstance(event, Started | TranscriptionStarted):
                self.model = event.model
        if num_new := (self.record.completion_tokens or 0) - num_before:
            self._among.count_tokens(num_new)
        self.has_ended = self._is_complete
        return taken

    async def _gather(self) -> None:
        try:
            async for event in self._events:
                self._put(event)
            if not self._is_complete:
                raise RuntimeError("the engine's events ended without a last one")
        except MaxiError as error:
            # Without its frames, which hold the request's body and this feed.
            self._put(Failed(error.with_traceback(None)))

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """The task may end in any way: with its last event, by `end` or by the engine, even before
        its first step, or by what a native library raised, which need not be an Exception."""
        if task.cancelled():
            if not self._is_left:
                reason = self._end_reason or Unavailable("The server is shutting down.")
                self._put(Failed(reason))
            return
        error = task.exception()
        if error is not None:
            identity = self.record.id
            logger.error("request %s failed inside the server", identity, exc_info=error)
            message = (
                f"Something went wrong inside the server. Its log says what, under {identity}."
            )
            self._put(Failed(EngineFailed(message)))

    def _put(self, event: E) -> None:
        if not self._is_complete:
            self._is_complete = isinstance(event, Completed | Transcribed | Failed)
            self._arrived.append(event)
            self._wake.set()


class EventFeed(Feed[Event]):
    """What answers a request for text."""


class TranscriptionFeed(Feed[TranscriptionEvent]):
    """What answers a request to write a recording down."""
