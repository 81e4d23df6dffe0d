"""What becomes of each tensor, in the two precisions: names, types and arrays. No files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from maxi_mlx.catalog.pull import affine
from maxi_mlx.catalog.pull.gguf_file import SourceTensor
from maxi_mlx.catalog.pull.safetensors_file import TensorSpec
from maxi_mlx.catalog.pull.source import Precision

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def specs(tensor: SourceTensor, precision: Precision) -> list[TensorSpec]:
    """What ``arrays`` yields for the same arguments, in the same order."""
    weight = f"{tensor.path}.weight"
    if precision == "float32":
        return [TensorSpec(weight, "F32", tensor.shape)]
    if tensor.kind == "F32":
        return [TensorSpec(weight, "F16" if _fits_half(tensor) else "F32", tensor.shape)]
    num_rows, num_columns = tensor.shape
    groups = (num_rows, num_columns // affine.GROUP_SIZE)
    words = (num_rows, num_columns * affine.BITS[tensor.kind] // 32)
    return [
        TensorSpec(weight, "U32", words),
        TensorSpec(f"{tensor.path}.scales", "F16", groups),
        TensorSpec(f"{tensor.path}.biases", "F16", groups),
    ]


def arrays(tensor: SourceTensor, precision: Precision) -> Iterator[NDArray[np.generic]]:
    import numpy as np

    if precision == "float32":
        yield _float32(tensor)
    elif tensor.kind == "F32":
        yield _float32(tensor).astype(np.float16 if _fits_half(tensor) else np.float32)
    else:
        repack = affine.from_q4_1 if tensor.kind == "Q4_1" else affine.from_q8_0
        groups = repack(tensor.ordered_rows().view(np.uint8))
        yield from (groups.packed, groups.scales, groups.biases)


def quantization(tensors: Iterable[SourceTensor]) -> dict[str, Any]:
    """config.json's entry: 4 bits, and by path what has more."""
    entry: dict[str, Any] = _entry(4)
    for tensor in tensors:
        bits = affine.BITS.get(tensor.kind, 4)
        if bits != 4:
            entry[tensor.path] = _entry(bits)
    return entry


def _entry(bits: int) -> dict[str, Any]:
    return {"group_size": affine.GROUP_SIZE, "bits": bits, "mode": "affine"}


def _float32(tensor: SourceTensor) -> NDArray[np.float32]:
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize

    values = dequantize(tensor.ordered_rows(), GGMLQuantizationType[tensor.kind])
    return np.ascontiguousarray(values, dtype=np.float32).reshape(tensor.shape)


def _fits_half(tensor: SourceTensor) -> bool:
    """Whether half floats hold every value exactly.

    One float32 norm would turn all that follows it into float32, at half the speed; rounding it
    would lose something. The values come from bfloat16 near 1, so that both can be avoided.
    """
    import numpy as np

    values = _float32(tensor)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(values.astype(np.float16).astype(np.float32), values))
