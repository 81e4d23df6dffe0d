"""Ids of images in prompts: the same for the same image, and where two prompts may part."""

from __future__ import annotations

import numpy as np
import pytest

from maxi_mlx.engine.vision.pictures import (
    Picture,
    next_start,
    picture_at,
    picture_ids,
    place_outside,
)

_CROPS = np.zeros((1, 2, 2, 3), np.uint8)
FIRST, SECOND = Picture(3, 7, _CROPS), Picture(9, 12, _CROPS)


def test_an_images_ids_are_its_own() -> None:
    assert picture_ids(b"one", 500) == picture_ids(b"one", 600)[:500]
    assert len(set(picture_ids(b"one", 500)) | set(picture_ids(b"two", 500))) == 1000
    # Above every vocabulary, and within 32 bits.
    assert all(1 << 31 <= each < 1 << 32 for each in picture_ids(b"one", 500))


@pytest.mark.parametrize(
    ("place", "outside", "at", "following"),
    [
        (0, 0, None, 3),
        (3, 3, FIRST, 9),
        (5, 3, FIRST, 9),
        (7, 7, None, 9),
        (11, 9, SECOND, None),
        (12, 12, None, None),
    ],
)
def test_places(place: int, outside: int, at: Picture | None, following: int | None) -> None:
    pictures = (FIRST, SECOND)
    assert place_outside(place, pictures) == outside
    assert picture_at(place, pictures) is at
    assert next_start(place, pictures) == following
