"""The pieces of one model as a tree over tokens, and the way of a prompt through it.

    root ─┬─ [ 0 … 255 ] ── [ 256 … 511 ] ── [ 512 … 700 ]
          │                      └─ at 300: [ 300 … 420 ]       what is shared is there once
          └─ [ 0 … 90 ]

Two children at one place differ in their first token, and a child within its parent differs from
the parent's next token: a prompt has one way. Pure; what the arrays are, it doesn't know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from maxi_mlx.kv_cache.pieces import (
    TOKEN_BYTES,
    PieceHead,
    PieceKind,
    decode_tokens,
    key_of_tokens,
)

_NO_TOKENS = b""


@dataclass(slots=True, eq=False)
class Node:
    """A piece, in memory (``arrays``), on disk, or both. In memory may be its first ``num_kept``
    tokens alone, where a text that parts within it came while it was on disk. ``num_dependents``
    counts the kept pieces that hang on it, and whoever holds it: while there are any it stays."""

    key: str
    kind: PieceKind
    parent: Node | None = field(repr=False)
    start: int
    tokens: bytes = _NO_TOKENS
    arrays: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    num_kept: int = 0
    num_bytes: int = 0
    is_on_disk: bool = False
    num_dependents: int = 0
    num_ends: int = 0  # conversations that end in it or beyond: kept by the tally
    num_at_end: int = 0  # kept blocks that go on where it ends: the same
    frequency: int = 0
    priority: float = 0.0
    saved_tokens: float = 0.0  # prompt tokens that needn't be computed, as the model counts them
    weight_bytes: int = 0  # what leaves memory with it
    owner: Any = field(default=None, repr=False)
    # By place and first token, and by place.
    blocks: dict[tuple[int, bytes], Node] = field(default_factory=dict, repr=False)
    checkpoints: dict[int, Node] = field(default_factory=dict, repr=False)

    @property
    def is_kept(self) -> bool:
        return self.arrays is not None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens) // TOKEN_BYTES

    @property
    def end(self) -> int:
        return self.start + self.num_tokens

    @property
    def has_children(self) -> bool:
        return bool(self.blocks or self.checkpoints)

    def child_at(self, place: int, rest: bytes) -> Node | None:
        """The block that goes on at ``place`` (of the whole text) with the first of ``rest``."""
        return self.blocks.get((place, rest[:TOKEN_BYTES]))

    def may_grow_at(self, place: int, rest: bytes) -> bool:
        """Whether a new block may hang here: it must part from what there is."""
        own = (place - self.start) * TOKEN_BYTES
        first = rest[:TOKEN_BYTES]
        return (place, first) not in self.blocks and self.tokens[own : own + TOKEN_BYTES] != first

    def head(self) -> PieceHead:
        parent = self.parent.key if self.parent is not None else ""
        return PieceHead(self.key, parent, self.kind, self.start, decode_tokens(self.tokens))

    def below(self) -> Iterator[Node]:
        """All that hangs on it, children before parents."""
        found = [self]
        for node in found:  # grows as it goes
            found.extend(node.blocks.values())
            found.extend(node.checkpoints.values())
        return iter(found[:0:-1])


def new_block(parent: Node, start: int, tokens: bytes) -> Node:
    key = key_of_tokens(parent.key, "block", tokens, start=start)
    return Node(key, "block", parent, start, tokens)


def new_checkpoint(parent: Node, place: int) -> Node:
    key = key_of_tokens(parent.key, "checkpoint", _NO_TOKENS, start=place)
    return Node(key, "checkpoint", parent, place)


def link(node: Node) -> None:
    assert node.parent is not None
    if node.kind == "block":
        node.parent.blocks[node.start, node.tokens[:TOKEN_BYTES]] = node
    else:
        node.parent.checkpoints[node.start] = node


def unlink(node: Node) -> None:
    assert node.parent is not None
    if node.kind == "block":
        del node.parent.blocks[node.start, node.tokens[:TOKEN_BYTES]]
    else:
        del node.parent.checkpoints[node.start]


def shared_bytes(first: bytes, second: bytes) -> int:
    """How many bytes of whole tokens two texts have in common at their start."""
    length = min(len(first), len(second))
    first, second = first[:length], second[:length]
    if first == second:
        return length
    different = int.from_bytes(first, "big") ^ int.from_bytes(second, "big")
    return (length * 8 - different.bit_length()) // (8 * TOKEN_BYTES) * TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class Use:
    """The first ``num_tokens`` of a block."""

    node: Node
    num_tokens: int


def way(root: Node, text: bytes) -> list[Use]:
    """The blocks that hold the longest known start of ``text``, from the root on."""
    uses: list[Use] = []
    node, place = root, 0
    while True:
        # A block is cut off the rest, not the other way round: a text is long, a block short.
        at = place * TOKEN_BYTES
        child = node.child_at(place, text[at : at + TOKEN_BYTES])
        if child is None:
            return uses
        common = shared_bytes(child.tokens, text[at : at + len(child.tokens)])
        uses.append(Use(child, common // TOKEN_BYTES))
        node, place = child, place + common // TOKEN_BYTES


def kept_part(uses: list[Use]) -> list[Use]:
    """As far as it is in memory. A piece in memory has its parents there."""
    for i, use in enumerate(uses):
        node = use.node
        if node.num_kept < use.num_tokens:
            return uses[:i] + ([Use(node, node.num_kept)] if node.num_kept else [])
    return uses


def reachable_part(uses: list[Use]) -> list[Use]:
    """As far as it is in memory or on disk."""
    for i, use in enumerate(uses):
        if not use.node.is_on_disk and use.node.num_kept < use.num_tokens:
            return kept_part(uses[: i + 1])
    return uses


def end_of(uses: list[Use]) -> int:
    return uses[-1].node.start + uses[-1].num_tokens if uses else 0


def cut(uses: list[Use], place: int) -> list[Use]:
    """The part of a way that leads to a place on it."""
    shorter = [use for use in uses if use.node.start < place]
    if shorter:
        last = shorter[-1].node
        shorter[-1] = Use(last, min(shorter[-1].num_tokens, place - last.start))
    return shorter


def checkpoints_on(uses: list[Use]) -> list[Node]:
    """The known checkpoints that a way passes, the newest last."""
    passed: list[Node] = []
    for use in uses:
        last = use.node.start + use.num_tokens
        places = sorted(place for place in use.node.checkpoints if place <= last)
        passed += [use.node.checkpoints[place] for place in places]
    return passed
