"""What a model's kept pieces amount to, counted as they come and go. Pure.

A conversation is a text that ends in a block where none goes on: it passes that block, and all
that the block hangs on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maxi_mlx.kv_cache.tree import Node


class Tally:
    """Told of every kept piece that comes, changes or goes, parents first and last."""

    def __init__(self) -> None:
        self.num_pieces = 0
        self.num_conversations = 0
        self.num_tokens = 0
        self.num_bytes = 0
        self._unshared = 0.0

    @property
    def shared_bytes(self) -> int:
        """What it would take in addition if every conversation had its whole prefix to itself."""
        return max(round(self._unshared) - self.num_bytes, 0) if self.num_pieces else 0

    def add(self, node: Node) -> None:
        """A piece that is kept from now on; nothing kept hangs on it yet."""
        self._count(node, 1)
        host = _parent(node)
        if node.kind == "checkpoint":
            self._unshared += node.num_bytes * _num_passing(host, node.start)
            return
        node.num_ends, node.num_at_end = 1, 0
        self._unshared += node.num_bytes
        goes_on = _goes_on(node, host)
        if not goes_on or host.num_at_end:
            self._pass(host, node.start, 1)  # else the conversation that ended there goes on
        host.num_at_end += goes_on

    def remove(self, node: Node) -> None:
        """A piece that is kept no longer, while it still has its bytes."""
        self._count(node, -1)
        host = _parent(node)
        if node.kind == "checkpoint":
            self._unshared -= node.num_bytes * _num_passing(host, node.start)
            return
        self._unshared -= node.num_bytes
        goes_on = _goes_on(node, host)
        host.num_at_end -= goes_on
        if not goes_on or host.num_at_end:
            self._pass(host, node.start, -1)
        node.num_ends = 0

    @contextmanager
    def changing(self, node: Node) -> Iterator[None]:
        """A kept piece's bytes, and how many of its tokens are kept, change meanwhile."""
        self._count(node, -1)
        self._unshared -= _used_bytes(node)
        was_end = not node.num_at_end
        try:
            yield
        finally:
            if node.kind == "block":
                children = (child for child in node.blocks.values() if child.is_kept)
                node.num_at_end = sum(_goes_on(child, node) for child in children)
                more = (not node.num_at_end) - was_end
                node.num_ends += more
                self._pass(_parent(node), node.start, more)
            self._unshared += _used_bytes(node)
            self._count(node, 1)

    def _pass(self, node: Node, place: int, sign: int) -> None:
        """One conversation more, or less, passes a block as far as ``place``."""
        self.num_conversations += sign
        while sign and node.parent is not None:
            node.num_ends += sign
            self._unshared += sign * _bytes_up_to(node, place)
            node, place = node.parent, node.start

    def _count(self, node: Node, sign: int) -> None:
        self.num_pieces += sign
        self.num_tokens += sign * node.num_kept
        self.num_bytes += sign * node.num_bytes


def _parent(node: Node) -> Node:
    assert node.parent is not None
    return node.parent


def _goes_on(node: Node, host: Node) -> bool:
    """Whether a block begins where its parent ends, which at the root is no end of a text."""
    return host.parent is not None and node.start == host.start + host.num_kept


def _bytes_up_to(node: Node, place: int) -> float:
    """What a text needs of a block, and of the checkpoints on it, that parts from it there."""
    checkpoints = [entry for at, entry in node.checkpoints.items() if at <= place]
    share = (place - node.start) / max(node.num_kept, 1)
    return node.num_bytes * share + sum(entry.num_bytes for entry in checkpoints)


def _num_passing(host: Node, place: int) -> int:
    """The conversations that come as far as a place on a block."""
    kept = [child for child in host.blocks.values() if child.is_kept]
    return host.num_ends - sum(child.num_ends for child in kept if child.start < place)


def _used_bytes(node: Node) -> float:
    """A kept piece's bytes, once for every conversation that needs them."""
    if node.kind == "checkpoint":
        return node.num_bytes * _num_passing(_parent(node), node.start)
    own = 0.0 if node.num_at_end else _bytes_up_to(node, node.start + node.num_kept)
    children = (child for child in node.blocks.values() if child.is_kept)
    return own + sum(child.num_ends * _bytes_up_to(node, child.start) for child in children)
