"""Positions of tokens in models for which an image lies in three directions: in time, down, across.

            text    image     text
    time    0 1 2   3 3 3 3   5 6 …   an image of two tokens across and two down: the text goes on
    down    0 1 2   3 3 4 4   5 6 …   after its longer side, so that from there on positions are
    across  0 1 2   3 4 3 4   5 6 …   behind the tokens' count

A model is told of them at each call; where nothing is told, positions are the tokens' count. Lives
on the device thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.vision.pictures import Picture

_DIRECTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tokens of one call are: ``positions``, (3, tokens), of one row's, or ``shifts``,
    (rows,), from their count. ``added`` are vectors, (1, tokens, width), that come to what the
    first layers have made."""

    positions: mx.array | None = None
    shifts: mx.array | None = None
    added: Sequence[mx.array] = ()


@dataclass(slots=True)
class Places:
    """Shared by a model and its layers: ``now`` is the place of the call under way."""

    now: Place = field(default_factory=Place)


def positions_of(begin: int, count: int, pictures: Sequence[Picture]) -> NDArray[np.int32]:
    """(3, count): of a prompt's tokens from ``begin`` on."""
    tokens = np.arange(begin, begin + count)
    positions = np.tile(tokens, (_DIRECTIONS, 1))
    shift = 0
    for picture in pictures:
        inside = (tokens >= picture.start) & (tokens < picture.end)
        if picture.grid is not None and inside.any():
            own = tokens[inside] - picture.start
            down, across = np.divmod(own, picture.grid[1])
            positions[:, inside] = picture.start + shift + np.stack([0 * own, down, across])
        shift += picture.shift
        positions[:, tokens >= picture.end] += picture.shift
    return positions.astype(np.int32)


def directions(sections: Sequence[int], *, is_interleaved: bool) -> list[int]:
    """Which direction each frequency turns with: one section after the other, or in turns."""
    if not is_interleaved:
        return [axis for axis, count in enumerate(sections) for _ in range(count)]
    axes = [0] * sum(sections)
    for axis in range(1, len(sections)):
        own = range(axis, len(sections) * sections[axis], len(sections))
        for place in own:
            axes[place] = axis
    return axes


class PlacedRope(nn.Module):  # type: ignore[misc, name-defined]
    """Turns queries and keys by their places, in a layer of mlx-lm's."""

    def __init__(self, rope: Any, places: Places, axes: Sequence[int]) -> None:
        super().__init__()
        self._rope = rope
        self._places = places
        # Not in lists or arrays of the module's, which would be its weights.
        self._axes = tuple(axes)

    def __call__(self, vectors: mx.array, offset: Any = 0) -> mx.array:
        now = self._places.now
        if now.positions is not None:
            return self._turned(vectors, now.positions)
        if now.shifts is not None:
            offset = offset + now.shifts
        turned: mx.array = self._rope(vectors, offset=offset)
        return turned

    def _turned(self, vectors: mx.array, positions: mx.array) -> mx.array:
        dims = self._rope.dims
        half = dims // 2
        powers = mx.arange(half, dtype=mx.float32) / half
        speeds = self._rope.scale * self._rope.base**-powers
        angles = positions[mx.array(self._axes)].T.astype(mx.float32) * speeds  # (tokens, half)
        cos, sin = mx.cos(angles), mx.sin(angles)
        first = vectors[..., :half].astype(mx.float32)
        second = vectors[..., half:dims].astype(mx.float32)
        parts = [first * cos - second * sin, second * cos + first * sin]
        turned = mx.concatenate(parts, axis=-1).astype(vectors.dtype)
        return mx.concatenate([turned, vectors[..., dims:]], axis=-1)
