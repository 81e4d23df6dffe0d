"""Which tokens may come next in a window's text: Whisper's rules for times, as bounds. Pure.

    <|0.00|> Hello there. <|2.40|><|3.10|> Who is it? <|4.00|>

A text begins with a time, times come in pairs but for the last one, and never go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# A window's text begins within its first second.
_MAX_FIRST_TIME = 50
LAST_TIME = 1500  # in steps of 0.02 s


@dataclass(frozen=True, slots=True)
class Bounds:
    """``text``: words may come; ``end``: the text may end. ``first_time`` to ``last_time`` may come
    too, in steps of 0.02 s; none where the first is behind the last."""

    text: bool
    end: bool
    first_time: int
    last_time: int

    @property
    def times(self) -> bool:
        return self.first_time <= self.last_time


def bounds_after(written: Sequence[int], *, time_begin: int) -> Bounds:
    """What may follow the tokens ``written`` in this window; ``time_begin`` is 0.00's token."""
    if not written:
        return Bounds(text=False, end=False, first_time=0, last_time=_MAX_FIRST_TIME)
    is_time = written[-1] >= time_begin
    was_time = len(written) < 2 or written[-2] >= time_begin
    if is_time and was_time:
        return Bounds(text=True, end=True, first_time=1, last_time=0)
    latest = max(token for token in written if token >= time_begin) - time_begin
    # The end of one segment may be the beginning of the next; no segment is of no length.
    first = latest if is_time else latest + 1
    return Bounds(text=not is_time, end=True, first_time=first, last_time=LAST_TIME)
