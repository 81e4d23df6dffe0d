"""Reads safetensors headers: which tensors are there, how large, and whether the file is whole.

Never reads tensor data, and knows nothing of what the tensors are for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from maxi_mlx.catalog.model_files import BrokenFile, open_regular, read_bytes

MAX_HEADER_BYTES = 100_000_000  # the format's own bound
MAX_INDEX_BYTES = 64_000_000
INDEX_NAME = "model.safetensors.index.json"

T = TypeVar("T")

_LFS_POINTER = b"version https://git-lfs"
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.safetensors")


class _Tensor(msgspec.Struct):
    # Absent from the header's own __metadata__ entry.
    data_offsets: tuple[int, int] | None = None


class _Shaped(msgspec.Struct):
    shape: tuple[int, ...] | None = None


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


# MLX writes a null where there is no metadata.
_header_decoder = msgspec.json.Decoder(dict[str, _Tensor | None])
_shapes_decoder = msgspec.json.Decoder(dict[str, _Shaped | None])
_index_decoder = msgspec.json.Decoder(_Index)


@dataclass(frozen=True, slots=True)
class Weights:
    """The tensors of a folder, by name with their bytes, and what keeps them from being loaded."""

    tensor_bytes: Mapping[str, int]
    problem: str | None = None

    @property
    def num_bytes(self) -> int:
        return sum(self.tensor_bytes.values())


def read_header(path: Path) -> dict[str, int]:
    """Bytes by tensor name. Raises BrokenFile where the file is cut short or something else."""
    return {name: end - begin for name, (begin, end) in read_places(path).items()}


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by tensor name. Raises BrokenFile likewise."""
    header, _, _ = _read_raw(path)
    tensors = _decoded(header, _shapes_decoder)
    return {name: each.shape for name, each in tensors.items() if each and each.shape is not None}


def read_places(path: Path) -> dict[str, tuple[int, int]]:
    """Where each tensor begins and ends in the file, in bytes. Raises BrokenFile likewise."""
    header, start, num_bytes = _read_raw(path)
    return _places(header, start=start, num_bytes=num_bytes)


def _read_raw(path: Path) -> tuple[bytes, int, int]:
    """The header, where the tensors begin, and the file's size."""
    with open_regular(path) as (file, num_bytes):
        start = file.read(len(_LFS_POINTER))
        if start == _LFS_POINTER:
            raise BrokenFile("is a Git LFS pointer, not weights: run `git lfs pull` beside it")
        header_bytes = int.from_bytes(start[:8], "little")
        if len(start) < 8 or header_bytes > min(MAX_HEADER_BYTES, num_bytes - 8):
            raise BrokenFile("is not a safetensors file, or is cut short in its header")
        file.seek(8)
        return file.read(header_bytes), 8 + header_bytes, num_bytes


def _decoded(header: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BrokenFile("has a broken header: it is not a safetensors file") from error


def _places(header: bytes, *, start: int, num_bytes: int) -> dict[str, tuple[int, int]]:
    places: dict[str, tuple[int, int]] = {}
    for name, tensor in _decoded(header, _header_decoder).items():
        if tensor is None or tensor.data_offsets is None:
            continue
        begin, end = tensor.data_offsets
        if not 0 <= begin <= end:
            raise BrokenFile(f"has a broken header: tensor {name[:100]!r} has no valid place")
        if start + end > num_bytes:
            missing = f"{start + end - num_bytes:,} bytes are missing"
            raise BrokenFile(f"is cut short: {missing} at its end")
        places[name] = start + begin, start + end
    if not places:
        raise BrokenFile("holds no tensors")
    return places


def read_weights(folder: Path, names: Collection[str]) -> Weights:
    """All the named files of a folder as one set of tensors, as a loader merges them."""
    tensor_bytes: dict[str, int] = {}
    problem: str | None = None
    for name in sorted(names):
        try:
            tensor_bytes.update(read_header(folder / name))
        except BrokenFile as error:
            problem = problem or f"{name} {error}"
    return Weights(tensor_bytes, problem)


def missing_files(folder: Path, names: Collection[str], weights: Weights) -> list[str]:
    """Weight files that the index or the shards' own numbers promise and that aren't there."""
    weight_map = _weight_map(folder / INDEX_NAME)
    promised = set(weight_map.values())
    # An index that names none of the files here was left by a conversion; nothing reads it.
    if promised and (not names or promised & set(names)):
        lost = {file for tensor, file in weight_map.items() if tensor not in weights.tensor_bytes}
        return sorted(lost - set(names))
    return _missing_shards(names)


def _weight_map(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return {}
    try:
        return _index_decoder.decode(read_bytes(path, max_bytes=MAX_INDEX_BYTES)).weight_map
    except (BrokenFile, msgspec.MsgspecError, RecursionError):
        # No loader of ours needs the index: without it the shards' numbers must do.
        return {}


def _missing_shards(names: Collection[str]) -> list[str]:
    numbers: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if (match := _SHARD.fullmatch(name)) is not None:
            numbers.setdefault((match["stem"], match["total"]), set()).add(int(match["number"]))
    return [
        f"{stem}-{number:05d}-of-{total}.safetensors"
        for (stem, total), present in sorted(numbers.items())
        for number in range(1, int(total) + 1)
        if number not in present
    ]
