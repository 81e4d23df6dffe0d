"""MLX arrays as host memory and back. Runs on the device thread."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

import mlx.core as mx
import numpy as np

from maxi_mlx.kv_cache.pieces import HostArray

# As safetensors and numpy name them; numpy has no bfloat16.
_NAMES: Mapping[Any, tuple[str, str]] = {
    mx.float32: ("F32", "float32"),
    mx.float16: ("F16", "float16"),
    mx.bfloat16: ("BF16", "uint16"),
    mx.uint32: ("U32", "uint32"),
    mx.int32: ("I32", "int32"),
    mx.uint8: ("U8", "uint8"),
    mx.int8: ("I8", "int8"),
    mx.uint16: ("U16", "uint16"),
    mx.int16: ("I16", "int16"),
    mx.uint64: ("U64", "uint64"),
    mx.int64: ("I64", "int64"),
    mx.bool_: ("BOOL", "bool"),
}
_NUMPY_NAMES = dict(_NAMES.values())
# What is swapped would have to be swapped back; MLX runs on no such machine.
assert sys.byteorder == "little"


def to_host(array: mx.array) -> HostArray:
    """Views an evaluated, contiguous array without a copy, which lives as long as the view. Raises
    TypeError for a dtype that no file knows."""
    if array.dtype not in _NAMES:
        raise TypeError(f"there is no name in safetensors for {array.dtype}")
    name, _ = _NAMES[array.dtype]
    seen = array
    if array.dtype == mx.bfloat16:
        seen = array.view(mx.uint16)
        mx.eval(seen)
    return HostArray(name, tuple(array.shape), memoryview(cast(Any, seen)))


def from_host(array: HostArray) -> mx.array:
    """A copy. Raises ValueError where the data is not what dtype and shape say."""
    if array.dtype not in _NUMPY_NAMES:
        raise ValueError(f"MLX has no dtype {array.dtype!r}")
    data = array.data if array.data.nbytes else b""
    seen = np.frombuffer(data, dtype=_NUMPY_NAMES[array.dtype]).reshape(array.shape)
    copied = mx.array(seen)
    return copied.view(mx.bfloat16) if array.dtype == "BF16" else copied
