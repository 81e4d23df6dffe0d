"""A piece as a safetensors file: eight bytes of length, a header in JSON, the arrays' bytes.

    length │ {"__metadata__":{"header_crc32":"…", "data_crc32":"…", …}, "name":{…}, …}   │ data
    └──────────── covered by header_crc32, its own digits as zeros ──────────────────────┘

So a byte changed anywhere is found, and a head can be trusted without its data. Knows bytes, and
nothing of folders.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from maxi_mlx.kv_cache.pieces import HostArray, HostPiece, PieceHead

FORMAT_VERSION = 1
LENGTH_BYTES = 8

_ITEM_BYTES = {
    name: num_bytes
    for num_bytes, names in (
        (1, "BOOL U8 I8 F8_E4M3 F8_E5M2"),
        (2, "U16 I16 F16 BF16"),
        (4, "U32 I32 F32"),
        (8, "U64 I64 F64 C64"),
    )
    for name in names.split()
}
_OPENING = b'{"__metadata__":'
_BEFORE_CRC = _OPENING + b'{"header_crc32":"'
_CRC_START = LENGTH_BYTES + len(_BEFORE_CRC)
_CRC_END = _CRC_START + 8
_NO_CRC = b"0" * 8
_ALIGNMENT = 64  # of the data in the file, and so of the arrays in a buffer that holds it
_MAX_HEADER_BYTES = 100_000_000  # as the safetensors package has it


class BrokenPiece(Exception):
    """A file can't be used. The message follows its path: ``is cut short …``."""


class OtherVersion(BrokenPiece):
    """It is whole, and of an older or a newer maxi-mlx."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the data. ``num_bytes`` is where the data begins."""

    namespace: str
    head: PieceHead
    num_bytes: int
    data_crc32: str


def encode(namespace: str, piece: HostPiece) -> list[bytes | memoryview]:
    """The file's bytes, in parts; the data is not copied. Raises ValueError for an array whose
    data is not what its shape and dtype say."""
    entries: dict[str, object] = {}
    parts: list[bytes | memoryview] = []
    offset = data_crc32 = 0
    for name, array in piece.arrays.items():
        data = _data(name, array)
        entries[name] = {
            "dtype": array.dtype,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
        offset += data.nbytes
        data_crc32 = zlib.crc32(data, data_crc32)
        parts.append(data)
    head = piece.head
    metadata = {
        "header_crc32": _NO_CRC.decode(),
        "data_crc32": _digits(data_crc32),
        "data_bytes": str(offset),
        "version": str(FORMAT_VERSION),
        "namespace": namespace,
        "key": head.key,
        "parent": head.parent,
        "kind": head.kind,
        "start": str(head.start),
        "token_ids": _json(head.token_ids),
        "notes": _json(dict(piece.notes)),
    }
    return [_sealed(_json({"__metadata__": metadata, **entries}).encode()), *parts]


def header_bytes(start: bytes | memoryview, file_bytes: int) -> int:
    """Where the data begins in a file of this size that begins with ``start``."""
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if not len(_BEFORE_CRC) <= length <= _MAX_HEADER_BYTES:
        raise BrokenPiece("is no piece of a prompt cache")
    if LENGTH_BYTES + length > file_bytes:
        raise BrokenPiece(f"is cut short, in its header: it has {file_bytes} bytes")
    return LENGTH_BYTES + length


def decode_header(raw: bytes | memoryview, file_bytes: int) -> Header:
    """``raw`` is all before the data. Raises BrokenPiece."""
    if raw[LENGTH_BYTES:_CRC_START] != _BEFORE_CRC:
        raise BrokenPiece("is no piece of a prompt cache")
    crc32 = zlib.crc32(raw[_CRC_END:], zlib.crc32(_NO_CRC, zlib.crc32(raw[:_CRC_START])))
    if raw[_CRC_START:_CRC_END] != _digits(crc32).encode():
        raise BrokenPiece("is damaged: its header's checksum is wrong")
    try:
        # Of the header only what is needed: the list of arrays can be long.
        text = str(raw[LENGTH_BYTES:], "utf-8")
        metadata, _ = json.JSONDecoder().raw_decode(text, len(_OPENING))
        return _header(metadata, len(raw), file_bytes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BrokenPiece(f"has a header that can't be read ({error!r})") from error


def decode(buffer: bytearray) -> tuple[Header, HostPiece]:
    """A whole file; the arrays are views into ``buffer``. Raises BrokenPiece."""
    view = memoryview(buffer).toreadonly()
    raw = view[: header_bytes(view[:LENGTH_BYTES], len(buffer))]
    header = decode_header(raw, len(buffer))
    data = view[header.num_bytes :]
    if _digits(zlib.crc32(data)) != header.data_crc32:
        raise BrokenPiece("is damaged: its data's checksum is wrong")
    try:
        entries = json.loads(bytes(raw[LENGTH_BYTES:]))
        metadata = entries.pop("__metadata__")
        arrays = {name: _array(name, entry, data) for name, entry in entries.items()}
        notes = json.loads(metadata["notes"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BrokenPiece(f"has a header that can't be read ({error!r})") from error
    return header, HostPiece(header.head, arrays, notes)


def _header(metadata: Mapping[str, str], num_bytes: int, file_bytes: int) -> Header:
    if metadata["version"] != str(FORMAT_VERSION):
        version = metadata["version"][:20]
        raise OtherVersion(f"has format {version}, and this maxi-mlx reads {FORMAT_VERSION}")
    expected = num_bytes + int(metadata["data_bytes"])
    if file_bytes != expected:
        raise BrokenPiece(f"has {file_bytes} bytes where there were {expected}")
    kind = metadata["kind"]
    if kind not in ("block", "checkpoint"):
        raise BrokenPiece(f"is of an unknown kind, {kind!r}")
    head = PieceHead(
        key=metadata["key"],
        parent=metadata["parent"],
        kind=kind,  # type: ignore[arg-type]  # mypy doesn't narrow by `in`
        start=int(metadata["start"]),
        token_ids=tuple(json.loads(metadata["token_ids"])),
    )
    return Header(metadata["namespace"], head, num_bytes, metadata["data_crc32"])


def _sealed(header: bytes) -> bytes:
    """Length and header, padded, with the checksum in its place."""
    header += b" " * (-(LENGTH_BYTES + len(header)) % _ALIGNMENT)
    raw = bytearray(len(header).to_bytes(LENGTH_BYTES, "little") + header)
    raw[_CRC_START:_CRC_END] = _digits(zlib.crc32(raw)).encode()
    return bytes(raw)


def _data(name: str, array: HostArray) -> memoryview:
    num_bytes = _num_bytes(array.dtype, array.shape)
    if array.data.nbytes != num_bytes or name == "__metadata__":
        raise ValueError(
            f"array {name!r} of {array.dtype}{list(array.shape)} comes with "
            f"{array.data.nbytes} bytes, {num_bytes} are needed"
        )
    # A view with a zero in its shape can't be cast.
    return array.data.cast("B") if num_bytes else memoryview(b"")


def _array(name: str, entry: Mapping[str, Any], data: memoryview) -> HostArray:
    start, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not 0 <= start <= end <= data.nbytes or end - start != _num_bytes(entry["dtype"], shape):
        raise ValueError(f"array {name!r} is not what its shape says")
    return HostArray(entry["dtype"], shape, data[start:end])


def _num_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    if dtype not in _ITEM_BYTES:
        raise ValueError(f"there is no dtype {dtype!r} in safetensors")
    return math.prod(shape) * _ITEM_BYTES[dtype]


def _digits(crc32: int) -> str:
    return f"{crc32:08x}"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
