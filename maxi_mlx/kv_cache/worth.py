"""Which piece goes first: the one that saves least compute for its bytes, and the longest unused.

Greedy dual size with frequency (Cherkasova 1998): a piece's priority is its worth, added to a clock
that stands at the priority of what went last. So what is not used again is passed by what comes
later, the sooner the less it was worth. Pure: has no clock of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from itertools import count

from maxi_mlx.kv_cache.tree import Node

# An old favourite gives way some time, too.
_MAX_FREQUENCY = 64
# Attention makes a token dearer the more come before it; about here by as much again.
_DOUBLE_COST_TOKENS = 16384
MAX_CHECKPOINTS = 8
_NEWEST_CHECKPOINTS = 3


def compute_tokens(start: int, num_tokens: int) -> float:
    """What it costs to read so many tokens, in tokens at a text's beginning."""
    return num_tokens * (1 + (start + num_tokens / 2) / _DOUBLE_COST_TOKENS)


def weigh(node: Node) -> None:
    """Sets what a kept piece saves, and what leaves memory with it. A checkpoint saves what comes
    after the one before it, and blocks without one are of no use."""
    if node.kind == "block":
        node.saved_tokens = compute_tokens(node.start, node.num_kept)
        node.weight_bytes = node.num_bytes
        return
    node.weight_bytes = node.num_bytes
    place, before, host = node.start, 0, node.parent
    while host is not None:
        places = [p for p, other in host.checkpoints.items() if p < node.start and other.is_kept]
        before = max((p for p in places if p <= place), default=0)
        if before:
            break
        node.weight_bytes += host.num_bytes
        place, host = host.start, host.parent
    node.saved_tokens = compute_tokens(before, node.start - before)


class Worth:
    """The kept pieces that nothing hangs on, in the order in which they go."""

    def __init__(self) -> None:
        self._clock = 0.0
        self._heap: list[tuple[float, int, Node]] = []
        self._order = count()  # of equals the older goes first

    def use(self, node: Node, *, is_new_use: bool, token_cost_s: float) -> None:
        """Makes a kept piece young."""
        node.frequency = min(node.frequency + is_new_use, _MAX_FREQUENCY)
        saved_s = node.saved_tokens * token_cost_s
        worth = max(node.frequency, 1) * saved_s / max(node.weight_bytes, 1)
        node.priority = self._clock + worth
        self.offer(node)

    def offer(self, node: Node) -> None:
        """It may go, if nothing hangs on it. Entries of an older priority are passed over."""
        if node.parent is not None and node.is_kept and not node.num_dependents:
            heapq.heappush(self._heap, (node.priority, next(self._order), node))

    def least(self) -> Node | None:
        """Takes out the one to go next; None where all that is kept is needed."""
        while self._heap:
            priority, _, node = heapq.heappop(self._heap)
            if node.is_kept and not node.num_dependents and node.priority == priority:
                self._clock = max(self._clock, priority)
                return node
        return None

    def tidy(self, kept: Collection[Node]) -> None:
        """Drops entries that are out of date, once they are most of all."""
        if len(self._heap) <= 2 * len(kept) + 1000:
            return
        self._heap = []
        for node in kept:
            self.offer(node)


def thin(checkpoints: Sequence[Node]) -> Node | None:
    """Of a text's checkpoints, in order, the one that can be spared; None where there are few.

    The first stays (the system prompt), the newest stay, and where texts part. Between them what
    is least used goes, and of that what leaves the smallest gap for its distance from the end: a
    text is mostly changed near its end.
    """
    if len(checkpoints) <= MAX_CHECKPOINTS:
        return None
    end = checkpoints[-1].start
    spare = range(1, len(checkpoints) - _NEWEST_CHECKPOINTS)

    def cost(i: int) -> tuple[bool, int, float]:
        node = checkpoints[i]
        gap = checkpoints[i + 1].start - checkpoints[i - 1].start
        return is_fork(node), node.frequency, gap / (end - node.start + 1)

    return checkpoints[min(spare, key=cost)]


def is_fork(checkpoint: Node) -> bool:
    """Whether several texts go on from there."""
    host, place = checkpoint.parent, checkpoint.start
    assert host is not None
    num_ways = sum(1 for start, _ in host.blocks if start == place)
    return num_ways + (place < host.end) > 1
