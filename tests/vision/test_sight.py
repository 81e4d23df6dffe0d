"""Crops and their text are those of transformers' own image processors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.vision.asking import picture, prompt_text
from tests.vision.tiny import FAMILIES

SIZES = ((70, 50), (50, 70), (64, 64), (8, 8), (300, 20), (2, 90), (500, 333))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_crops_are_the_same_to_the_pixel(
    family: str, size: tuple[int, int], seeing_models: Path
) -> None:
    from maxi_mlx.catalog.model_files import read_object
    from maxi_mlx.engine.vision.sight import SIGHTS
    from tests.vision.reference import crops

    folder = seeing_models / f"tiny-{family}"
    settings = read_object(folder / "preprocessor_config.json")
    sight = SIGHTS[family](settings, read_object(folder / "config.json"))
    image = picture(size=size)
    prepared = sight.prepare(image)
    theirs = crops(folder, image) * 255
    if settings.get("do_normalize", True):
        theirs = (crops(folder, image) * 0.5 + 0.5) * 255
    ours = prepared.crops.transpose(0, 3, 1, 2)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    if family == "gemma4":
        num_tokens = prepared.text.count(sight.token)
        assert num_tokens == ours.shape[2] * ours.shape[3] // 16**2 <= 70
    elif prepared.grid is None:
        assert prepared.text in prompt_text(family, image)
    else:
        assert prepared.grid == (ours.shape[2] // 16, ours.shape[3] // 16)
        assert prepared.text == sight.token * (prepared.grid[0] * prepared.grid[1])


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 3), (20, 20_000)], ids=str)
def test_a_line_has_no_more_tokens_than_a_square(
    size: tuple[int, int], seeing_models: Path
) -> None:
    """transformers refuses it; as it is, it would fill a context."""
    from maxi_mlx.catalog.model_files import read_object
    from maxi_mlx.engine.vision.sight import SIGHTS

    for family in FAMILIES:
        folder = seeing_models / f"tiny-{family}"
        settings = read_object(folder / "preprocessor_config.json")
        sight = SIGHTS[family](settings, read_object(folder / "config.json"))
        prepared = sight.prepare(picture(size=size))
        assert 1 <= prepared.text.count(sight.token) <= 70
