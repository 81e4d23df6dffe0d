"""How much work one rendering may do: processor time, length of the output and of what is joined.

A template is a program that came with the model's weights. The sandbox keeps it from the machine;
this keeps it from running for ever. Time is looked at in every turn of a loop, at every call of a
macro, and between the pieces of the output; lengths where ``+``, ``~``, ``*``, ``%`` and the
padding methods of strings make them. What isn't bounded is a single built-in of Jinja's or of a
string's on data that is itself within the bounds (a ``sort`` of a hundred thousand items, a
``replace`` that grows a text manyfold): the next look comes after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_TICKS_A_LOOK = 64


class LimitExceeded(Exception):
    """The template did more than it may; says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``time_s`` is processor time of the rendering thread: a busy machine doesn't count."""

    time_s: float = 10.0
    output_chars: int = 64 << 20


class Work:
    """What one rendering has done so far. Lives on the thread that renders."""

    def __init__(self, limits: Limits, *, within: Work | None = None) -> None:
        """``within``: work that this is a part of, whose time counts too."""
        self._limits = limits
        self._ends_at = time.thread_time() + limits.time_s
        if within is not None:
            self._ends_at = min(self._ends_at, within._ends_at)
        self._ticks_left = _TICKS_A_LOOK

    def tick(self) -> None:
        self._ticks_left -= 1
        if self._ticks_left <= 0:
            self._ticks_left = _TICKS_A_LOOK
            self.look()

    def look(self) -> None:
        if time.thread_time() > self._ends_at:
            raise LimitExceeded(f"it ran for more than {self._limits.time_s:g} seconds")

    def check_length(self, length: int) -> None:
        if length > self._limits.output_chars:
            raise LimitExceeded(f"it made a text of {length} characters")


_current: ContextVar[Work | None] = ContextVar("chat_template_work", default=None)


@contextmanager
def working(limits: Limits) -> Iterator[Work]:
    """Counts what is rendered inside, on this thread."""
    work = Work(limits, within=_current.get())
    token = _current.set(work)
    try:
        yield work
    finally:
        _current.reset(token)


def current_work() -> Work | None:
    """None outside of a rendering: Jinja folds constants while it compiles."""
    return _current.get()
