"""What the prefix cache tells of itself: values, and the counters they are read from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields

_HOUR_MINUTES = 60


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Of one model, or of all. A hit found all that was stored of a text; a partial hit ended
    where the text parts from a stored one, or before, at the last checkpoint.

    ``num_conversations``: texts that end in a piece of their own. ``shared_bytes``: what it would
    take in addition if every one of them had its prefix to itself. ``hit_rate``: the share of the
    last hour's look-ups that found something; None where there were none.
    """

    num_pieces: int = 0
    num_conversations: int = 0
    num_tokens: int = 0
    num_bytes: int = 0
    shared_bytes: int = 0
    num_hits: int = 0
    num_partial_hits: int = 0
    num_misses: int = 0
    num_evictions: int = 0
    num_restores: int = 0
    num_tokens_saved: int = 0
    hit_rate: float | None = None


@dataclass(slots=True)
class Counts:
    """What happened, since the start."""

    num_hits: int = 0
    num_partial_hits: int = 0
    num_misses: int = 0
    num_evictions: int = 0
    num_restores: int = 0
    num_tokens_saved: int = 0

    def add(self, other: Counts) -> None:
        for entry in fields(self):
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))

    def as_dict(self) -> dict[str, int]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


class HitRate:
    """Look-ups and hits of the last hour, a pair of counters a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._minutes: deque[list[int]] = deque()  # [minute, look-ups, hits]

    def count(self, *, is_hit: bool) -> None:
        minute = int(self._clock() // 60)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append([minute, 0, 0])
            self._forget(minute)
        self._minutes[-1][1] += 1
        self._minutes[-1][2] += is_hit

    def rate(self) -> float | None:
        """None where nothing was looked up."""
        self._forget(int(self._clock() // 60))
        num_lookups = sum(lookups for _, lookups, _ in self._minutes)
        num_hits = sum(hits for _, _, hits in self._minutes)
        return num_hits / num_lookups if num_lookups else None

    def _forget(self, minute: int) -> None:
        while self._minutes and self._minutes[0][0] <= minute - _HOUR_MINUTES:
            self._minutes.popleft()
