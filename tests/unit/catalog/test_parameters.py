"""Parameters are counted by the shapes in the files' headers."""

from __future__ import annotations

import json
from pathlib import Path

from maxi_mlx.catalog.parameters import num_parameters


def header(path: Path, shapes: dict[str, list[int]]) -> Path:
    tensors = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
        for name, shape in shapes.items()
    }
    text = json.dumps({"__metadata__": {"format": "mlx"}, **tensors}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    return path


def test_plain_and_packed_weights_count_alike(tmp_path: Path) -> None:
    plain = header(tmp_path / "a", {"layer.weight": [8, 128], "norm.weight": [128], "one": []})
    assert num_parameters([plain], {}) == 8 * 128 + 128 + 1
    packed = header(
        tmp_path / "b",
        {
            "layer.weight": [8, 16],
            "layer.scales": [8, 2],
            "layer.biases": [8, 2],
            "norm.weight": [128],
        },
    )
    assert num_parameters([packed], {"quantization": {"group_size": 64, "bits": 4}}) == 1152
    own = {"quantization": {"group_size": 32, "bits": 4, "layer": {"group_size": 64, "bits": 8}}}
    assert num_parameters([packed], own) == 1152
    shard = header(tmp_path / "c", {"head.weight": [10]})
    assert num_parameters([packed, shard], own) == 1162
