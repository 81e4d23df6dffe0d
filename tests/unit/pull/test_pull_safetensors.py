"""What we write a tensor at a time, the safetensors library reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from maxi_mlx.catalog.pull.safetensors_file import TensorSpec, write_safetensors

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.scales": np.array([1.5], np.float16),
    "words": np.array([[2**32 - 1, 0, 1]], np.uint32),
}
SPECS = [
    TensorSpec("a", "F32", (2, 3)),
    TensorSpec("a.scales", "F16", (1,)),
    TensorSpec("words", "U32", (1, 3)),
]


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, SPECS, arrays=iter(ARRAYS.values()))
    read = load_file(path)
    assert list(read) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    with safe_open(path, "np") as file:
        assert file.metadata() == {"format": "mlx"}
    header_bytes = int.from_bytes(path.read_bytes()[:8], "little")
    assert header_bytes % 8 == 0
    assert path.stat().st_size == 8 + header_bytes + sum(spec.num_bytes for spec in SPECS)


@pytest.mark.parametrize(
    "arrays",
    [
        pytest.param([ARRAYS["a"].T], id="other shape"),
        pytest.param([ARRAYS["a"].astype(np.float16)], id="other type"),
        pytest.param([ARRAYS["a"]], id="too few"),
        pytest.param([*ARRAYS.values(), ARRAYS["a"]], id="too many"),
    ],
)
def test_what_was_not_announced_is_refused(arrays: list[np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_safetensors(tmp_path / "model.safetensors", SPECS, arrays=arrays)
