"""What a row's cache takes in memory, measured on one real row.

Growing caches cost a number of bytes a token, sliding windows the same up to their window,
recurrent states a fixed size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# What mlx-lm's caches grow by, in tokens; a row of one token has this much.
_GROWTH_TOKENS = 256
# Of caches that are made anew of others, about so much is there twice for a moment.
COPY_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Part:
    """A layer's share: so much a token up to its window, and so much whatever the length."""

    bytes_per_token: int
    fixed_bytes: int
    window_tokens: int | None

    def cost(self, num_tokens: int) -> int:
        rounded = -(-num_tokens // _GROWTH_TOKENS) * _GROWTH_TOKENS
        if self.window_tokens is not None:
            rounded = min(rounded, self.window_tokens)
        return self.bytes_per_token * rounded + self.fixed_bytes


@dataclass(frozen=True, slots=True)
class KVCost:
    """Bytes of cache by length, for one model."""

    parts: tuple[Part, ...]

    def row_bytes(self, num_tokens: int) -> int:
        """One row of so many tokens."""
        return sum(part.cost(num_tokens) for part in self.parts)

    def padding_bytes(self, lengths: Sequence[int]) -> int:
        """What such a batch holds of nothing, since every row is as long as the longest."""
        return self.batch_bytes(lengths) - sum(map(self.row_bytes, lengths))

    def batches_bytes(self, lengths: Sequence[int], *, most_padding_bytes: int) -> int:
        """Rows in as few batches as keep the padding of each within bounds."""
        total, batch = 0, list[int]()
        for length in sorted(lengths):
            if self.padding_bytes([*batch, length]) > most_padding_bytes:
                total += self.batch_bytes(batch)
                batch = []
            batch.append(length)
        return total + self.batch_bytes(batch)

    def batch_bytes(self, lengths: Sequence[int]) -> int:
        """Rows that decode together: every one is as long as the longest."""
        return len(lengths) * self.row_bytes(max(lengths, default=0))

    def copy_bytes(self, held_bytes: int) -> int:
        """What caches of so many bytes take more while they are made anew, a few layers at once:
        these, and of one layer those that are merged first."""
        layer_bytes = -(-held_bytes // max(len(self.parts), 1))
        return min(held_bytes, COPY_BYTES + layer_bytes) + layer_bytes


def leaves(cache: Iterable[Any]) -> Iterable[Any]:
    """A cache's layers, and where a layer has several, each of them."""
    for entry in cache:
        if hasattr(entry, "caches"):
            yield from leaves(entry.caches)
        else:
            yield entry


def _unknown_part(entry: Any) -> Part:
    """A recurrent state has one size for ever; what counts tokens is taken to grow with them."""
    num_bytes = int(entry.nbytes)
    if hasattr(entry, "offset"):
        return Part(-(-num_bytes // _GROWTH_TOKENS), 0, None)
    return Part(0, num_bytes, None)


def measure(cache: Sequence[Any]) -> KVCost:
    """Reads the cost off a cache that holds one token of one row."""
    parts = []
    for entry in leaves(cache):
        if entry.empty():
            continue
        keys = getattr(entry, "keys", None)
        if keys is None:
            parts.append(_unknown_part(entry))
            continue
        num_tokens = (keys[0] if isinstance(keys, tuple | list) else keys).shape[2]
        window = getattr(entry, "max_size", None) or getattr(entry, "chunk_size", None)
        parts.append(Part(int(entry.nbytes) // num_tokens, 0, window))
    return KVCost(tuple(parts))
