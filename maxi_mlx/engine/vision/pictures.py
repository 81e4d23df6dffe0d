"""Images in a prompt's token ids.

An image token's id in the prompt is none of the vocabulary's: it is made of a hash of the image, so
that the prefix cache, which knows tokens alone, never takes one image for another. The vectors
that stand for it are put in when the prompt is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# No vocabulary has as many; ids are kept as 32 bits.
FIRST_ID = 1 << 31
_ID_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One image of a prompt, whose tokens lie from ``start`` to before ``end``; between them may be
    text, such as the crops' names. ``crops`` is (crops, height, width, 3). ``grid`` is how many
    tokens lie down and across, in a model for which they do (`places`)."""

    start: int
    end: int
    crops: NDArray[np.uint8] = field(repr=False)
    grid: tuple[int, int] | None = None

    @property
    def shift(self) -> int:
        """How far positions behind it are from the tokens' count."""
        return 0 if self.grid is None else max(self.grid) - self.grid[0] * self.grid[1]


def is_picture_id(token_id: int) -> bool:
    return token_id >= FIRST_ID


def picture_ids(digest: bytes, count: int) -> list[int]:
    """The ids of an image's tokens: the same for the same image, wherever it stands."""
    data = hashlib.shake_128(digest).digest(count * _ID_BYTES)
    starts = range(0, len(data), _ID_BYTES)
    return [FIRST_ID | int.from_bytes(data[place : place + _ID_BYTES]) for place in starts]


def place_outside(place: int, pictures: Iterable[Picture]) -> int:
    """Where two prompts may part: not within an image, whose ids are alike by chance alone."""
    return next((each.start for each in pictures if each.start < place < each.end), place)


def picture_at(place: int, pictures: Iterable[Picture]) -> Picture | None:
    return next((each for each in pictures if each.start <= place < each.end), None)


def next_start(place: int, pictures: Iterable[Picture]) -> int | None:
    """Where the first begins that comes after ``place``."""
    return next((each.start for each in pictures if each.start > place), None)


def num_picture_tokens(token_ids: Sequence[int]) -> int:
    return sum(map(is_picture_id, token_ids))
