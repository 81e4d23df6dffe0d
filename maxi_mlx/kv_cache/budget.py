"""The bytes that stored pieces may take, over all models. Lives on the device thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from maxi_mlx.kv_cache.tree import Node
from maxi_mlx.kv_cache.worth import Worth


class Budget:
    """Counts what is kept. What has to go is asked of its owner (``node.owner.evict``).

    ``left_bytes`` says what of the device's memory may still be taken, whatever the budget.
    """

    def __init__(self, budget_bytes: int, left_bytes: Callable[[], int] | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.num_bytes = 0
        self._left_bytes = left_bytes
        self._most_bytes: int | None = None  # None: by the budget alone
        self.kept: set[Node] = set()
        self.worth = Worth()

    def look(self) -> None:
        """Sees how much memory there is. What is admitted is computed only later, so that this
        comes before the first of what is kept together."""
        if self._left_bytes is not None:
            self._most_bytes = self.num_bytes + self._left_bytes()

    @property
    def most_bytes(self) -> int:
        """What may be kept, by the budget and by the memory when it was last looked at."""
        if self._most_bytes is None:
            return self.budget_bytes
        return max(min(self.budget_bytes, self._most_bytes), 0)

    def make_room(self, num_bytes: int) -> bool:
        """False where it can't be had: it is too much, or all the rest is needed."""
        most_bytes = self.most_bytes
        return num_bytes <= most_bytes and self.shrink_to(most_bytes - num_bytes)

    def shrink_to(self, num_bytes: int) -> bool:
        while self.num_bytes > num_bytes:
            node = self.worth.least()
            if node is None:
                return False
            node.owner.evict(node)
        return True

    def admit(self, node: Node, arrays: Mapping[str, Any], num_kept: int) -> None:
        """Takes a piece's arrays in, in place of those that it had."""
        num_bytes = sum(int(array.nbytes) for array in arrays.values())
        self.num_bytes += num_bytes - node.num_bytes
        if not node.is_kept:
            self.kept.add(node)
            assert node.parent is not None
            node.parent.num_dependents += 1
        node.arrays, node.num_kept, node.num_bytes = arrays, num_kept, num_bytes

    def drop(self, node: Node) -> None:
        """Gives a piece's memory back."""
        assert node.is_kept
        assert node.parent is not None
        self.num_bytes -= node.num_bytes
        self.kept.discard(node)
        node.arrays, node.num_kept, node.num_bytes = None, 0, 0
        self.release(node.parent)

    def tidy(self) -> None:
        self.worth.tidy(self.kept)

    def release(self, node: Node) -> None:
        """One thing less hangs on it."""
        node.num_dependents -= 1
        self.worth.offer(node)

    @contextmanager
    def holding(self, node: Node) -> Iterator[None]:
        """It stays in memory meanwhile, and so does all that it hangs on."""
        node.num_dependents += 1
        try:
            yield
        finally:
            self.release(node)
