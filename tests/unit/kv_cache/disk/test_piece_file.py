"""A piece's file: others can read it, and no byte of it can change unseen."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from maxi_mlx.kv_cache.disk.piece_file import (
    BrokenPiece,
    OtherVersion,
    decode,
    decode_header,
    encode,
    header_bytes,
)
from maxi_mlx.kv_cache.pieces import HostArray, HostPiece, PieceHead, root_key
from tests.unit.kv_cache.disk.pieces import NAMESPACE, chain, same

DTYPES = [("F32", np.float32), ("F16", np.float16), ("U32", np.uint32), ("I64", np.int64)]


def file_of(piece: HostPiece) -> bytearray:
    return bytearray(b"".join(encode(NAMESPACE, piece)))


def rich_piece() -> HostPiece:
    arrays = {
        f"{place}.keys": HostArray(name, (1, 2, 3), memoryview(np.arange(6, dtype=dtype)).cast("B"))
        for place, (name, dtype) in enumerate(DTYPES)
    }
    arrays["bf16"] = HostArray("BF16", (2, 1), memoryview(b"\x80\x3f\x00\x40"))
    arrays["empty"] = HostArray("F32", (1, 0, 4), memoryview(np.zeros((1, 0, 4), np.float32)))
    arrays["scalar"] = HostArray("F32", (), memoryview(struct.pack("<f", 1.5)))
    head = PieceHead("ab" * 16, root_key(NAMESPACE), "checkpoint", 7, (1, 2, 70_000))
    return HostPiece(head, arrays, {"offset": 10, "note": 'quote " and ünïcode', "list": [1, None]})


@pytest.mark.parametrize("piece", [rich_piece(), chain(1)[0], HostPiece(chain(1)[0].head, {})])
def test_comes_back_as_it_was(piece: HostPiece) -> None:
    header, found = decode(file_of(piece))
    assert header.namespace == NAMESPACE
    assert same(found, piece)


def test_the_safetensors_package_reads_it(tmp_path: Path) -> None:
    piece = rich_piece()
    del piece.arrays["bf16"]  # type: ignore[attr-defined]  # numpy has none
    (tmp_path / "piece.safetensors").write_bytes(file_of(piece))
    found = load_file(tmp_path / "piece.safetensors")
    assert set(found) == set(piece.arrays)
    for place, (_, dtype) in enumerate(DTYPES):
        array = found[f"{place}.keys"]
        assert array.dtype == dtype
        assert array.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert found["scalar"] == np.float32(1.5)


def test_a_view_of_many_dimensions_is_written_as_it_lies() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    piece = HostPiece(chain(1)[0].head, {"x": HostArray("F32", (2, 3, 4), memoryview(values))})
    _, found = decode(file_of(piece))
    assert bytes(found.arrays["x"].data) == values.tobytes()


def test_arrays_are_aligned_and_readonly() -> None:
    file = file_of(chain(1)[0])
    start = header_bytes(file, len(file))
    _, found = decode(file)
    assert start % 64 == 0
    assert found.arrays["0.keys"].data.readonly


def test_every_changed_byte_is_found() -> None:
    original = file_of(chain(1, num_bytes=64)[0])
    for place in range(len(original)):
        for change in (0x01, 0x20, 0x80, 0xFF):
            file = original.copy()
            file[place] ^= change
            with pytest.raises(BrokenPiece):
                decode(file)


def test_every_length_but_its_own_is_refused() -> None:
    original = file_of(chain(1, num_bytes=64)[0])
    for length in range(len(original)):
        with pytest.raises(BrokenPiece):
            decode(original[:length])
    with pytest.raises(BrokenPiece, match=r"bytes where there were"):
        decode(original + b"\0")


def test_a_header_is_read_without_data() -> None:
    piece = rich_piece()
    file = file_of(piece)
    start = header_bytes(file[:8], len(file))
    header = decode_header(file[:start], len(file))
    assert (header.head, header.namespace) == (piece.head, NAMESPACE)


def test_a_damaged_header_is_found_without_data() -> None:
    file = file_of(chain(1, num_bytes=64)[0])
    start = header_bytes(file[:8], len(file))
    for place in range(8, start):
        raw = file[:start]
        raw[place] ^= 1
        with pytest.raises(BrokenPiece):
            decode_header(raw, len(file))


def test_another_format_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxi_mlx.kv_cache.disk.piece_file.FORMAT_VERSION", 0)
    file = file_of(chain(1)[0])
    monkeypatch.undo()
    with pytest.raises(OtherVersion, match="has format 0, and this maxi-mlx reads 1"):
        decode(file)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(BrokenPiece):
        decode(bytearray(data))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        pytest.param("x", HostArray("F32", (2,), memoryview(b"1234")), id="too-short"),
        pytest.param("x", HostArray("F33", (1,), memoryview(b"1234")), id="dtype"),
        pytest.param("__metadata__", HostArray("F32", (1,), memoryview(b"1234")), id="name"),
    ],
)
def test_an_array_that_is_none_is_refused(name: str, array: HostArray) -> None:
    arrays: dict[str, Any] = {name: array}
    with pytest.raises(ValueError, match="dtype" if array.dtype == "F33" else "array"):
        encode(NAMESPACE, HostPiece(chain(1)[0].head, arrays))
