"""A window's tokens to its segments, and where the next window begins. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

STEP_S = 0.02
FRAMES_PER_STEP = 2
# A window always gets on, however early its last time is.
_LEAST_ADVANCE = 50


@dataclass(frozen=True, slots=True)
class Span:
    """``tokens`` with the times around them; ``start_s`` and ``end_s`` from the window's start."""

    start_s: float
    end_s: float
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """``num_frames``: how far the next window is from this one."""

    spans: tuple[Span, ...]
    num_frames: int


def cut(tokens: Sequence[int], *, num_frames: int, time_begin: int) -> Cut:
    """Cuts at each pair of times. What comes behind the last pair has no end yet: the next window
    begins there and hears it whole. A single time at the end says that nothing follows."""
    places = [place for place, token in enumerate(tokens) if token >= time_begin]
    pairs = [place for place, after in pairwise(places) if after == place + 1]
    ends_alone = len(tokens) > 1 and tokens[-1] >= time_begin and tokens[-2] < time_begin
    if not pairs:
        return Cut((_whole(tokens, places, num_frames, time_begin),), num_frames)
    borders = [place + 1 for place in pairs]
    if ends_alone:
        borders.append(len(tokens))
    spans = []
    for start, end in zip([0, *borders], borders, strict=False):
        piece = tokens[start:end]
        first, last = piece[0] - time_begin, piece[-1] - time_begin
        spans.append(Span(max(first, 0) * STEP_S, last * STEP_S, tuple(piece)))
    if ends_alone:
        return Cut(tuple(spans), num_frames)
    reached = (tokens[borders[-1] - 1] - time_begin) * FRAMES_PER_STEP
    return Cut(tuple(spans), min(max(reached, _LEAST_ADVANCE), num_frames))


def _whole(tokens: Sequence[int], places: Sequence[int], num_frames: int, time_begin: int) -> Span:
    """A text without a pair of times is one segment, to its last time or the window's end."""
    start_s, end_s = 0.0, num_frames / 100
    if places and places[0] == 0:
        start_s = (tokens[0] - time_begin) * STEP_S
    if places and places[-1] != 0:
        end_s = (tokens[places[-1]] - time_begin) * STEP_S
    return Span(start_s, end_s, tuple(tokens))
