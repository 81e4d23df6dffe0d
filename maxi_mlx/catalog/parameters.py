"""Counts a model's parameters, by the headers of its safetensors files.

MLX packs quantised weights into 32-bit words, with a scale for each group of them: there the
scales' shape tells how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxi_mlx.catalog.weights import read_shapes

_WEIGHT, _SCALES, _BIASES = ".weight", ".scales", ".biases"


def num_parameters(files: Iterable[Path], config: Mapping[str, Any]) -> int:
    """Raises BrokenFile for a file that can't be read."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        shapes.update(read_shapes(file))
    settings = config.get("quantization")
    settings = settings if isinstance(settings, dict) else {}
    return sum(_count(name, shapes, settings) for name in shapes)


def _count(name: str, shapes: Mapping[str, Sequence[int]], settings: Mapping[str, Any]) -> int:
    stem = name.rpartition(".")[0]
    is_packed = stem + _SCALES in shapes and stem + _WEIGHT in shapes
    if is_packed and name.endswith((_SCALES, _BIASES)):
        return 0
    if is_packed and name.endswith(_WEIGHT):
        return math.prod(shapes[stem + _SCALES]) * _group_size(stem, settings)
    return math.prod(shapes[name])


def _group_size(layer: str, settings: Mapping[str, Any]) -> int:
    """Of this layer, where it has one of its own."""
    for part in (settings.get(layer), settings):
        if isinstance(part, dict) and isinstance(part.get("group_size"), int):
            return int(part["group_size"])
    return 1
