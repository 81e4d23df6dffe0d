"""The responses that are being made: by whom they can be fetched, cancelled and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from maxi_mlx.api.responses import RawItem, Response, ResponseCall
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.response_log import EventLog

# What is kept in memory of the streams of responses that have ended, so that a client whose
# connection broke can go on where it was.
MAX_LOG_BYTES = 32 * 2**20


@dataclass(slots=True, kw_only=True, eq=False)
class ResponseRun:
    """One response in the making. ``history`` is what was said before its own input. Only what is
    made in the background has a ``log``: other streams are for those who wait for them."""

    call: ResponseCall
    response: Response
    history: Sequence[RawItem]
    feed: EventFeed
    log: EventLog | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def cancel(self) -> None:
        """Ends generation, and waits until the response says so."""
        self.response.cancel()
        self.feed.end(InvalidRequest("The response was cancelled.", code="cancelled"))
        await self.ended.wait()


class ResponseRuns:
    """Lives on the event loop; owns the tasks of those that nobody waits for."""

    def __init__(self) -> None:
        self._by_id: dict[str, ResponseRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._logs: dict[str, EventLog] = {}  # of those that have ended, the oldest first

    @property
    def all(self) -> tuple[ResponseRun, ...]:
        return tuple(self._by_id.values())

    def get(self, id: str) -> ResponseRun | None:
        return self._by_id.get(id)

    def log(self, id: str) -> EventLog | None:
        """The stream of a response that has ended, if it is still here."""
        return self._logs.get(id)

    def forget(self, id: str) -> None:
        self._logs.pop(id, None)

    @contextmanager
    def one(self, run: ResponseRun) -> Iterator[None]:
        self._by_id[run.response.id] = run
        try:
            yield
        finally:
            del self._by_id[run.response.id]
            if run.log is not None:
                # Its readers wait for an end, also where making it failed.
                run.log.add((), is_end=True)
                self._keep_log(run.response.id, run.log)
            run.ended.set()

    def _keep_log(self, id: str, log: EventLog) -> None:
        self._logs[id] = log
        num_bytes = sum(each.num_bytes for each in self._logs.values())
        while num_bytes > MAX_LOG_BYTES:
            num_bytes -= self._logs.pop(next(iter(self._logs))).num_bytes

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does it in the background, to its end."""

        async def do() -> None:
            await work()

        task = asyncio.create_task(do())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Waits for what runs; who ends it is whoever ends the feeds."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
