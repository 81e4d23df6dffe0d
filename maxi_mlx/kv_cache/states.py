"""A cache's state as JSON and arrays, and back: ``state`` of an mlx-lm cache is a tree of arrays
and scalars, of whatever shape its class likes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx


def pack(state: Any, arrays: dict[str, mx.array]) -> Any:
    """The tree as JSON, its arrays put into ``arrays``: lazy, and once evaluated in memory of their
    own. Raises TypeError for what JSON has no form of."""
    if isinstance(state, mx.array):
        name = f"state.{len(arrays)}"
        arrays[name] = mx.contiguous(state)
        return {"array": name}
    if isinstance(state, tuple):
        return {"tuple": [pack(entry, arrays) for entry in state]}
    if isinstance(state, list):
        return [pack(entry, arrays) for entry in state]
    if isinstance(state, dict):
        return {"dict": {str(key): pack(entry, arrays) for key, entry in state.items()}}
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise TypeError(f"a cache's state holds a {type(state).__name__}, which can't be kept")


def unpack(note: Any, arrays: Mapping[str, mx.array]) -> Any:
    """The tree anew. Its arrays are new ones, which may be written to: MLX copies the memory when
    somebody does."""
    if isinstance(note, list):
        return [unpack(entry, arrays) for entry in note]
    if not isinstance(note, dict):
        return note
    if "array" in note:
        return mx.contiguous(arrays[note["array"]])
    if "tuple" in note:
        return tuple(unpack(entry, arrays) for entry in note["tuple"])
    return {key: unpack(entry, arrays) for key, entry in note["dict"].items()}
