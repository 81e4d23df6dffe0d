"""The repacking is exact: MLX's numbers are GGUF's, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from maxi_mlx.catalog.pull.affine import AffineGroups, from_q4_1, from_q8_0
from maxi_mlx.core.errors import SetupError


def unpacked(groups: AffineGroups, bits: int) -> NDArray[np.float32]:
    """MLX's definition: the lowest bits of a word come first; value = scale * q + bias."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    q = (groups.packed[..., None] >> shifts) & np.uint32(2**bits - 1)
    q = q.reshape(*groups.scales.shape, 32).astype(np.float32)
    scales = groups.scales.astype(np.float32)[..., None]
    biases = groups.biases.astype(np.float32)[..., None]
    return (scales * q + biases).reshape(groups.packed.shape[0], -1)


def random_blocks(seed: int, *, num_halves: int, num_bytes: int) -> NDArray[np.uint8]:
    """Three rows of four blocks: any bytes, behind halves that are any not too large number."""
    random = np.random.default_rng(seed)
    exponents = random.uniform(-24, 8, (3, 4, num_halves))
    halves = (random.choice([-1, 1], exponents.shape) * 2.0**exponents).astype(np.float16)
    content = random.integers(0, 256, (3, 4, num_bytes), dtype=np.uint8)
    return np.concatenate([halves.view(np.uint8), content], axis=-1).reshape(3, -1)


@pytest.mark.parametrize(
    ("repack", "kind", "bits", "num_halves", "num_bytes"),
    [
        pytest.param(from_q4_1, GGMLQuantizationType.Q4_1, 4, 2, 16, id="Q4_1"),
        pytest.param(from_q8_0, GGMLQuantizationType.Q8_0, 8, 1, 32, id="Q8_0"),
    ],
)
@given(seed=st.integers(0, 2**32))
def test_values_equal_those_of_gguf(
    repack: Callable[[NDArray[np.uint8]], AffineGroups],
    kind: GGMLQuantizationType,
    bits: int,
    num_halves: int,
    num_bytes: int,
    seed: int,
) -> None:
    rows = random_blocks(seed, num_halves=num_halves, num_bytes=num_bytes)
    groups = repack(rows)
    assert (groups.packed.dtype, groups.scales.dtype) == (np.uint32, np.float16)
    assert groups.packed.shape == (3, 4 * bits)
    assert groups.scales.shape == groups.biases.shape == (3, 4)
    np.testing.assert_array_equal(unpacked(groups, bits), dequantize(rows, kind))


def test_q4_1_block_by_hand() -> None:
    """Byte i of the block has weight i below and weight i + 16 above."""
    halves = np.array([0.5, -1.0], np.float16).view(np.uint8)
    pairs = np.array([i | (15 - i) << 4 for i in range(16)], np.uint8)
    groups = from_q4_1(np.concatenate([halves, pairs])[None])
    assert [f"{word:08x}" for word in groups.packed[0]] == [
        "76543210",
        "fedcba98",
        "89abcdef",
        "01234567",
    ]
    assert (groups.scales[0, 0], groups.biases[0, 0]) == (0.5, -1.0)


def test_q8_0_block_by_hand() -> None:
    half = np.array([0.25], np.float16).view(np.uint8)
    signed = np.array([-128, -1, 0, 127] * 8, np.int8).view(np.uint8)
    groups = from_q8_0(np.concatenate([half, signed])[None])
    assert [f"{word:08x}" for word in groups.packed[0]] == ["ff807f00"] * 8
    assert (groups.scales[0, 0], groups.biases[0, 0]) == (0.25, -32.0)


@pytest.mark.parametrize(("scale", "is_kept"), [(511.5, True), (512.0, False), (-512.0, False)])
def test_q8_0_scales_that_overflow_are_refused(scale: float, is_kept: bool) -> None:
    half = np.array([scale], np.float16).view(np.uint8)
    rows = np.concatenate([half, np.zeros(32, np.uint8)])[None]
    if is_kept:
        assert from_q8_0(rows).biases[0, 0] == -128 * scale
    else:
        with pytest.raises(SetupError, match="too large for half floats"):
            from_q8_0(rows)
