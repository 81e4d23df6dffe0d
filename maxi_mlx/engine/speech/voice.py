"""Where somebody may be speaking, by the loudness of each hundredth of a second. Pure.

Speech rises and falls by far more than steady noise does. So a frame is voiced where it stands out
of the quietest frames around it, and what is steady (silence, hiss, hum) is not. In doubt it is
voice: the model has a judgement of its own, and what is left out here nobody ever hears.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.speech.features import FRAMES_PER_S, Floats

Flags = NDArray[np.bool_]

_INAUDIBLE_DB = -72.0
_ABOVE_FLOOR_DB = 5.0
_FLOOR_PERCENTILE = 10
_FLOOR_REACH_S = 15
_LEAST_EVIDENCE_FRAMES = 300
_SMOOTHED_FRAMES = 3
_SHORTEST_FRAMES = 5  # a click
_MARGIN_FRAMES = 40  # the soft ends of words
_LONGEST_PAUSE_FRAMES = 150  # between words of one region
_LONG_SILENCE_FRAMES = 40
_KEPT_SILENCE_FRAMES = 10


@dataclass(frozen=True, slots=True)
class Region:
    """Frames ``start`` up to ``end``."""

    start: int
    end: int


def voiced_frames(levels_db: Floats) -> Flags:
    """Whether each frame stands out of what is around it."""
    least = np.maximum(_floor(levels_db) + _ABOVE_FLOOR_DB, _INAUDIBLE_DB)
    voiced: Flags = _smoothed(levels_db) > least
    return voiced


def voiced_regions(voiced: Flags) -> list[Region]:
    """In order, apart from each other by pauses of more than a second and a half."""
    edges = np.flatnonzero(np.diff(voiced.astype(np.int8), prepend=0, append=0))
    regions: list[Region] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start < _SHORTEST_FRAMES:
            continue
        start = max(0, start - _MARGIN_FRAMES)
        end = min(len(voiced), end + _MARGIN_FRAMES)
        if regions and start - regions[-1].end <= _LONGEST_PAUSE_FRAMES:
            start = regions.pop().start
        regions.append(Region(start, end))
    return regions


def next_voice(regions: list[Region], frame: int) -> int | None:
    """The first frame at or after ``frame`` that is in a region; None: there is no more."""
    for region in regions:
        if frame < region.end:
            return max(frame, region.start)
    return None


def without_silence(voiced: Flags, start: int, end: int) -> tuple[int, int]:
    """What a stretch of frames is without long silence at its beginning and its end; all of it
    where nothing in it is voiced."""
    frames = np.flatnonzero(voiced[start:end])
    if not len(frames):
        return start, end
    first, last = start + int(frames[0]), start + int(frames[-1]) + 1
    if first - start > _LONG_SILENCE_FRAMES:
        start = first - _KEPT_SILENCE_FRAMES
    if end - last > _LONG_SILENCE_FRAMES:
        end = last + _KEPT_SILENCE_FRAMES
    return start, end


def _smoothed(levels_db: Floats) -> NDArray[np.float64]:
    if not len(levels_db):
        return levels_db.astype(np.float64)
    padded = np.pad(levels_db.astype(np.float64), _SMOOTHED_FRAMES // 2, mode="edge")
    return np.convolve(padded, np.ones(_SMOOTHED_FRAMES) / _SMOOTHED_FRAMES, mode="valid")


def _floor(levels_db: Floats) -> NDArray[np.float64]:
    """How loud the quietest tenth around each frame is, renewed every second. What is too short to
    be told from a steady sound has no floor."""
    if len(levels_db) < _LEAST_EVIDENCE_FRAMES:
        return np.full(len(levels_db), -np.inf)
    num_seconds = -(-len(levels_db) // FRAMES_PER_S)
    reach = _FLOOR_REACH_S * FRAMES_PER_S
    floors = [
        np.percentile(levels_db[max(0, at - reach) : at + reach], _FLOOR_PERCENTILE)
        for at in range(0, num_seconds * FRAMES_PER_S, FRAMES_PER_S)
    ]
    return np.repeat(np.array(floors, np.float64), FRAMES_PER_S)[: len(levels_db)]
