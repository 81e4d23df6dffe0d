"""Safetensors headers: sizes, and files that are cut, foreign or hostile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxi_mlx.catalog.model_files import BrokenFile
from maxi_mlx.catalog.weights import read_header, read_weights


def test_sizes_are_those_of_the_tensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros((3, 5), np.float32)}, path, metadata={"format": "mlx"})
    assert read_header(path) == {"a": 60}
    save_file({"a": np.zeros((3, 5), np.float16), "b": np.zeros(7, np.float16)}, path)
    assert read_header(path) == {"a": 30, "b": 14}


def test_a_tensor_in_two_files_counts_once(tmp_path: Path) -> None:
    for name in ("model-1.safetensors", "model-2.safetensors"):
        save_file({"a": np.zeros(4, np.float32)}, tmp_path / name)
    weights = read_weights(tmp_path, ["model-1.safetensors", "model-2.safetensors"])
    assert (weights.num_bytes, weights.problem) == (16, None)


def with_header(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_mlx_writes_a_null_where_there_is_no_metadata(tmp_path: Path) -> None:
    tensor = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    path = tmp_path / "model.safetensors"
    path.write_bytes(with_header({"__metadata__": None, "a": tensor}, bytes(12)))
    assert read_header(path) == {"a": 12}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is not a safetensors file, or is cut short in its header", id="empty"),
        pytest.param(
            b"\x10\0\0\0",
            "is not a safetensors file, or is cut short in its header",
            id="within the length",
        ),
        pytest.param(
            with_header({})[:-1],
            "is not a safetensors file, or is cut short in its header",
            id="within the header",
        ),
        pytest.param(
            b"\xff" * 64,
            "is not a safetensors file, or is cut short in its header",
            id="a length beyond the file",
        ),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
            "is a Git LFS pointer, not weights: run `git lfs pull` beside it",
            id="LFS pointer",
        ),
        pytest.param(
            with_header({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, b"1234567"),
            "is cut short: 2 bytes are missing at its end",
            id="within the data",
        ),
        pytest.param(
            with_header({"a": {"data_offsets": [4, 2]}}, b"1234567"),
            "has a broken header: tensor 'a' has no valid place",
            id="offsets the wrong way",
        ),
        pytest.param(
            with_header({"a": {"data_offsets": [-4, 2]}}, b"1234567"),
            "has a broken header: tensor 'a' has no valid place",
            id="negative offset",
        ),
        pytest.param(
            with_header(b"[1, 2"),
            "has a broken header: it is not a safetensors file",
            id="not JSON",
        ),
        pytest.param(
            with_header(b'{"a":' * 100_000),
            "has a broken header: it is not a safetensors file",
            id="nested",
        ),
        pytest.param(
            with_header(b'{"\xff": {}}'),
            "has a broken header: it is not a safetensors file",
            id="not UTF-8",
        ),
        pytest.param(with_header({"__metadata__": {}}), "holds no tensors", id="no tensors"),
    ],
)
def test_broken_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(BrokenFile) as raised:
        read_header(path)
    assert str(raised.value) == message
    assert read_weights(tmp_path, [path.name]).problem == f"model.safetensors {message}"


def test_folder_in_a_files_place(tmp_path: Path) -> None:
    with pytest.raises(BrokenFile, match="can't be read: Is a directory"):
        read_header(tmp_path)
