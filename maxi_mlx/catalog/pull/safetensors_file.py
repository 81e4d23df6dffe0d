"""Writes a safetensors file one tensor at a time, so that the whole never has to be in memory.

The file is the length of the header in eight bytes, the header as JSON, and the tensors' bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dtype = Literal["F32", "F16", "U32"]
NUMPY_NAMES: dict[Dtype, str] = {"F32": "<f4", "F16": "<f2", "U32": "<u4"}
ITEM_BYTES: dict[Dtype, int] = {"F32": 4, "F16": 2, "U32": 4}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def write_safetensors(
    path: Path,
    specs: Sequence[TensorSpec],
    *,
    arrays: Iterable[NDArray[np.generic]],
) -> None:
    """``arrays`` come in the order of ``specs`` and are taken one by one."""
    header = _header(specs)
    with path.open("xb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for spec, array in zip(specs, arrays, strict=True):
            if array.shape != spec.shape or array.dtype != NUMPY_NAMES[spec.dtype]:
                raise ValueError(f"{spec} was announced, {array.dtype}{array.shape} came")
            file.write(array.data.cast("B"))


def _header(specs: Sequence[TensorSpec]) -> bytes:
    entries: dict[str, object] = {"__metadata__": {"format": "mlx"}}
    offset = 0
    for spec in specs:
        end = offset + spec.num_bytes
        entries[spec.name] = {
            "dtype": spec.dtype,
            "shape": list(spec.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    return header + b" " * (-len(header) % 8)  # readers want the data aligned
