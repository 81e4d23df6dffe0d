"""What the prefix cache keeps: pieces of prompts' KV caches, named by all the tokens before them.

    root ─► block ─► block ─► block ─► block       a piece hangs at any token of its parent, so
                        ├───► block ─► checkpoint  that what prompts share is there once; its key
                        └───► checkpoint           is a hash of all tokens from the root

Values that cross threads: host memory, no MLX.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

BLOCK_TOKENS = 256
TOKEN_BYTES = 4

PieceKind = Literal["block", "checkpoint"]


@dataclass(frozen=True, slots=True)
class PieceHead:
    """``token_ids`` are the piece's own, ``start`` of them come before: all of the parent's, or
    fewer where texts part within the parent. A block has up to `BLOCK_TOKENS`, and keys and values
    for each; a checkpoint has none, and the states of layers that can't be cut, as they are after
    ``start`` tokens."""

    key: str
    parent: str
    kind: PieceKind
    start: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array in host memory. ``dtype`` is safetensors' name of it (F32, F16, BF16, U32 …);
    ``data`` is contiguous, in C order, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview

    @property
    def num_bytes(self) -> int:
        return self.data.nbytes


@dataclass(frozen=True, slots=True)
class HostPiece:
    """A piece as it goes to disk and comes back. ``notes`` is JSON: the scalars of the states."""

    head: PieceHead
    arrays: Mapping[str, HostArray]
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        return sum(entry.num_bytes for entry in self.arrays.values())


def root_key(namespace: str) -> str:
    """The parent of first blocks. ``namespace`` names all that a KV cache depends on besides
    tokens: the model's weights, its adapter, and the caches' form."""
    return hashlib.blake2b(namespace.encode(), digest_size=16).hexdigest()


def encode_tokens(token_ids: Sequence[int]) -> bytes:
    """`TOKEN_BYTES` a token, the highest first: bytes are compared, cut and looked up in C, and
    take a tenth of what numbers in a tuple do."""
    numbers = array("I", token_ids)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def decode_tokens(tokens: bytes) -> tuple[int, ...]:
    numbers = array("I", tokens)
    if sys.byteorder == "little":
        numbers.byteswap()
    return tuple(numbers)


def piece_key(parent: str, kind: PieceKind, token_ids: Sequence[int], *, start: int = 0) -> str:
    """32 hex digits."""
    return key_of_tokens(parent, kind, encode_tokens(token_ids), start=start)


def key_of_tokens(parent: str, kind: PieceKind, tokens: bytes, *, start: int) -> str:
    """`piece_key` for tokens that are encoded already."""
    hashed = hashlib.blake2b(bytes.fromhex(parent), digest_size=16)
    hashed.update(f"{kind} {start} ".encode())
    hashed.update(tokens)
    return hashed.hexdigest()
