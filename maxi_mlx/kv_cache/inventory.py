"""The pieces of one model: which are known, in memory, on disk. Keeps three things true:

- a piece in memory has its parents in memory, as far as it hangs on them;
- a piece that is neither in memory nor on disk is not known;
- where a model has states, blocks that lead to no checkpoint are not kept.

What the disk refuses, since its queue is full, is offered again as soon as it has room.

Lives on the device thread; what the arrays are, it doesn't know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maxi_mlx.kv_cache.budget import Budget
from maxi_mlx.kv_cache.counts import Counts
from maxi_mlx.kv_cache.pieces import PieceHead, encode_tokens, root_key
from maxi_mlx.kv_cache.shelf import Shelf
from maxi_mlx.kv_cache.tally import Tally
from maxi_mlx.kv_cache.tree import Node, link, unlink
from maxi_mlx.kv_cache.worth import weigh

_FIRST_SWEEP = 4096


class Inventory:
    def __init__(
        self,
        namespace: str,
        *,
        budget: Budget,
        shelf: Shelf | None,
        has_states: bool,
        token_cost_s: float,
    ) -> None:
        self.namespace = namespace
        self.is_open = True
        self.token_cost_s = token_cost_s
        self.budget = budget
        self.counts = Counts()
        self.tally = Tally()
        self.root = Node(root_key(namespace), "block", None, 0, arrays={})
        self.nodes: dict[str, Node] = {}  # by key; parents come before children
        self._shelf = shelf
        self._has_states = has_states
        self._unwritten: dict[Node, None] = {}  # refused by the disk, the oldest first
        self._swept_at = _FIRST_SWEEP  # so many nodes

    def admit(
        self,
        node: Node,
        arrays: Mapping[str, Any],
        *,
        num_kept: int,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Into memory, for which there is room, and whose parent is there."""
        if node.key not in self.nodes:
            node.owner = self
            self.nodes[node.key] = node
            link(node)
        is_new = not node.is_kept
        if notes is not None:
            node.notes = notes
        if is_new:
            self.budget.admit(node, arrays, num_kept)
            self.tally.add(node)
        else:
            with self.tally.changing(node):
                self.budget.admit(node, arrays, num_kept)
        weigh(node)
        self.use(node, is_new_use=is_new)

    def use(self, node: Node, *, is_new_use: bool) -> None:
        self.budget.worth.use(node, is_new_use=is_new_use, token_cost_s=self.token_cost_s)

    def write(self, node: Node) -> None:
        """To disk, if there is one, with the parents that are not there."""
        chain = []
        above: Node | None = node
        while above is not None and above.parent is not None and not above.is_on_disk:
            chain.append(above)
            above = above.parent
        for piece in reversed(chain):
            if self._shelf is None or piece.num_kept < piece.num_tokens:
                return
            piece.is_on_disk = self._shelf.write(self.namespace, piece)
            if not piece.is_on_disk:
                self._unwritten[node] = None
                return
        self._unwritten.pop(node, None)

    def write_more(self, num_bytes: int) -> None:
        """Offers the disk what it had refused: a piece, and more up to so many bytes."""
        num_bytes = max(num_bytes, 1)  # a piece may have no bytes
        while self._unwritten and num_bytes > 0:
            node = next(iter(self._unwritten))
            del self._unwritten[node]
            if node.is_on_disk:
                continue
            num_bytes -= max(node.num_bytes, 1)
            self.write(node)
            if not node.is_on_disk:
                return

    def sweep(self) -> None:
        """Forgets what the disk has dropped since, once that may be half of all that is known."""
        if self._shelf is None or len(self.nodes) <= self._swept_at:
            return
        for node in reversed(list(self.nodes.values())):
            if node.is_on_disk and node.key in self.nodes and not self._shelf.holds(node.key):
                self.is_gone(node)
        self._swept_at = max(2 * len(self.nodes), _FIRST_SWEEP)

    def evict(self, node: Node) -> None:
        """Out of memory, for want of room."""
        self.counts.num_evictions += 1
        self.write(node)
        self.drop(node)

    def drop(self, node: Node) -> None:
        """Out of memory. Nothing may hang on it."""
        parent = node.parent
        assert parent is not None
        self._release(node)
        if not node.is_on_disk:
            self._forget(node)
        self.prune(parent)

    def prune(self, node: Node) -> None:
        """Drops blocks from here up that lead to no checkpoint, where that makes them useless."""
        while self._has_states and node.parent is not None and node.is_kept:
            if node.num_dependents:
                return
            parent = node.parent
            self._release(node)
            if not node.is_on_disk:
                self._forget(node)
            node = parent

    def replace(self, node: Node) -> None:
        """A block without children gives way to a longer one in its place."""
        if node.is_kept:
            self._release(node)
        self._forget(node)

    def is_gone(self, node: Node) -> None:
        """It is no longer on disk."""
        node.is_on_disk = False
        if not node.is_kept:
            self._forget(node)

    def close(self) -> None:
        """Gives all memory back; what is on disk stays there."""
        self.is_open = False
        for node in reversed(list(self.nodes.values())):
            if node.is_kept:
                self._release(node)
        self.nodes.clear()
        self.root.blocks.clear()
        self._unwritten.clear()

    def learn(self, heads: Iterable[tuple[PieceHead, bytes]]) -> None:
        """What lies on disk, parents first, with the tokens encoded. What doesn't fit what is
        known, such as the shorter form of a block that has grown, is left where it is."""
        for head, tokens in heads:
            known = self.nodes.get(head.key)
            if known is not None:
                known.is_on_disk = True
                continue
            parent = self.root if head.parent == self.root.key else self.nodes.get(head.parent)
            if parent is None or not self._has_place(parent, head, tokens):
                continue
            node = Node(head.key, head.kind, parent, head.start, tokens, is_on_disk=True)
            node.owner = self
            self.nodes[node.key] = node
            link(node)

    def _has_place(self, parent: Node, head: PieceHead, tokens: bytes) -> bool:
        is_within = parent.start < head.start <= parent.end
        if head.kind == "checkpoint":
            return self._has_states and is_within and head.start not in parent.checkpoints
        is_first = parent is self.root and head.start == 0
        return (is_within or is_first) and parent.may_grow_at(head.start, tokens)

    def _release(self, node: Node) -> None:
        self._unwritten.pop(node, None)
        self.tally.remove(node)
        self.budget.drop(node)

    def _forget(self, node: Node) -> None:
        """With all that hangs on it, of which nothing is in memory."""
        for child in node.below():
            del self.nodes[child.key]
        del self.nodes[node.key]
        unlink(node)


def is_piece(node: Node, head: PieceHead) -> bool:
    """Whether what came is what was asked for."""
    return (head.key, head.kind, head.start) == (node.key, node.kind, node.start) and encode_tokens(
        head.token_ids
    ) == node.tokens
