"""GGUF's blocks of 32 weights as MLX's affine groups of 32, number for number. Arrays only.

Both formats keep small integers q and, a group, two half floats; MLX's value is scale * q + bias.

    Q4_1   w = d * q + m         4 bits   scale d, bias m
    Q8_0   w = d * q, q signed   8 bits   q + 128, scale d, bias -128 * d
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxi_mlx.core.errors import SetupError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUP_SIZE = 32
BITS = {"Q4_1": 4, "Q8_0": 8}


@dataclass(frozen=True, slots=True)
class AffineGroups:
    """One matrix as MLX stores it: ``packed`` holds 32 / bits values in a word, lowest first."""

    packed: NDArray[np.uint32]
    scales: NDArray[np.float16]
    biases: NDArray[np.float16]


def from_q4_1(rows: NDArray[np.uint8]) -> AffineGroups:
    """``rows`` are a matrix's rows as bytes: blocks of d, m and 16 bytes of two weights each."""
    import numpy as np

    num_rows = rows.shape[0]
    blocks = rows.reshape(num_rows, -1, 20)
    halves = np.ascontiguousarray(blocks[..., :4]).view(np.float16)
    # Byte i of a block has weight i in its low half and weight i + 16 in its high half;
    # MLX wants neighbours in one byte.
    pairs = blocks[..., 4:]
    low, high = pairs & 0x0F, pairs >> 4
    neighbours = np.concatenate(
        [low[..., 0::2] | low[..., 1::2] << 4, high[..., 0::2] | high[..., 1::2] << 4], axis=-1
    )
    return AffineGroups(
        packed=neighbours.reshape(num_rows, -1).view("<u4"),
        scales=np.ascontiguousarray(halves[..., 0]),
        biases=np.ascontiguousarray(halves[..., 1]),
    )


def from_q8_0(rows: NDArray[np.uint8]) -> AffineGroups:
    """``rows`` are a matrix's rows as bytes: blocks of d and 32 signed bytes."""
    import numpy as np

    num_rows = rows.shape[0]
    blocks = rows.reshape(num_rows, -1, 34)
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]
    # A power of two: exact in half floats, as long as it doesn't overflow.
    with np.errstate(over="ignore"):
        biases = scales * np.float16(-128)
    if not np.isfinite(biases).all():
        raise SetupError("A Q8_0 block's scale is too large for half floats; it can't be kept.")
    unsigned = np.ascontiguousarray(blocks[..., 2:] ^ 0x80)  # q + 128 in two's complement
    return AffineGroups(
        packed=unsigned.reshape(num_rows, -1).view("<u4"),
        scales=np.ascontiguousarray(scales),
        biases=biases,
    )
