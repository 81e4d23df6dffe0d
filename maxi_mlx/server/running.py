"""The requests that are being answered, so that the server can wait for the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class RunningRequests:
    """Lives on the event loop."""

    def __init__(self) -> None:
        self.num_running = 0
        self.none_left = asyncio.Event()
        self.none_left.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        self.num_running += 1
        self.none_left.clear()
        try:
            yield
        finally:
            self.num_running -= 1
            if self.num_running == 0:
                self.none_left.set()
