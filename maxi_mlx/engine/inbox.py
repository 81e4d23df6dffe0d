"""What the event loop asks of the device thread: commands, in order, each done or refused.

Nothing that was put in is ever forgotten: once the inbox is closed, what is left is refused, and
what comes later too.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, Protocol, TypeVar

from maxi_mlx.core.errors import EngineFailed, MaxiError, Unavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Command(Protocol):
    """Runs on the device thread; neither method may raise."""

    def run(self) -> None: ...

    def refuse(self, error: MaxiError) -> None: ...


class Call(Generic[T]):
    """A function whose result somebody waits for."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.future: Future[T] = Future()

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        failure: MaxiError
        try:
            self.future.set_result(self._function())
            return
        except MaxiError as error:
            failure = error.with_traceback(None)
        except BaseException as error:  # a panic of a native library is no Exception
            logger.debug("a call to the device thread failed", exc_info=True)
            failure = EngineFailed(str(error) or type(error).__name__)
        # An error of our own and without its frames, which may hold the weights of a model.
        self.future.set_exception(failure)

    def refuse(self, error: MaxiError) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Inbox:
    """Any thread may put; the device thread takes."""

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = Lock()  # so that nothing is put between closing and refusing what is left
        self._is_closed = False

    def put(self, command: Command) -> None:
        with self._lock:
            if not self._is_closed:
                self._commands.put(command)
                return
        command.refuse(_closed())

    def take(self, *, timeout_s: float | None) -> list[Command]:
        """All commands that have come; waits so long for the first one, None: for ever."""
        commands: list[Command] = []
        while True:
            wait = timeout_s != 0 and not commands
            try:
                commands.append(self._commands.get(wait, timeout_s))
            except queue.Empty:
                return commands

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for command in self.take(timeout_s=0):
            command.refuse(_closed())


def _closed() -> MaxiError:
    return Unavailable("The server is shutting down.")
