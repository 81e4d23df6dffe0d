"""The way between pieces in memory and the disk tier. Lives on the device thread; what the disk
answers on its own is posted here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from maxi_mlx.kv_cache.disk_port import DiskPort
from maxi_mlx.kv_cache.heads import parents_first
from maxi_mlx.kv_cache.host_arrays import to_host
from maxi_mlx.kv_cache.pieces import HostPiece, PieceHead
from maxi_mlx.kv_cache.tree import Node

logger = logging.getLogger(__name__)

Post = Callable[[Callable[[], None]], None]

# So much at once, so that answers under way are not held up for long: a piece is copied into
# MLX's memory, a head becomes a place in the tree.
_PIECES_AT_ONCE = 4
_HEADS_AT_ONCE = 2000


class Taker(Protocol):
    """Whose pieces are read."""

    @property
    def namespace(self) -> str: ...

    def write_more(self, num_bytes: int) -> None:
        """The disk has taken so many bytes of somebody's, and has room again."""

    def learn(self, heads: Iterable[tuple[PieceHead, bytes]]) -> None: ...

    def listed(self) -> None:
        """That was all."""

    def take_back(self, key: str, piece: HostPiece | None) -> None: ...


@dataclass(eq=False, slots=True)
class _Restore:
    num_pending: int
    on_done: Callable[[], None]


class Shelf:
    """``post`` brings a function to the device thread, from any other."""

    def __init__(self, disk: DiskPort, post: Post) -> None:
        self._disk = disk
        self._post = post
        self._waiting: dict[tuple[Taker, str], list[_Restore]] = {}
        # What the disk still reads from, so that it is freed here and not on the disk's thread.
        self._lent: dict[int, list[memoryview]] = {}
        self._loans = count()
        self._takers: list[Taker] = []

    def listen(self, taker: Taker, root: str) -> None:
        def on_heads(heads: list[PieceHead]) -> None:
            # On the disk's thread, so that the device thread has little to do.
            try:
                ordered = parents_first(heads, root)
                for i in range(0, len(ordered), _HEADS_AT_ONCE):
                    some = ordered[i : i + _HEADS_AT_ONCE]
                    self._post(lambda some=some: taker.learn(some))  # type: ignore[misc]
            finally:
                self._post(taker.listed)

        self._takers.append(taker)
        self._disk.listen(taker.namespace, on_heads)

    def forget(self, taker: Taker) -> None:
        if taker in self._takers:
            self._takers.remove(taker)

    def holds(self, key: str) -> bool:
        return self._disk.holds(key)

    def write(self, namespace: str, node: Node) -> bool:
        """False where the disk has no room for it, or its arrays have no form there."""
        assert node.arrays is not None
        try:
            arrays = {name: to_host(array) for name, array in node.arrays.items()}
        except TypeError:
            return False
        loan = next(self._loans)
        # The views: they are of the arrays, or of other forms of them.
        self._lent[loan] = [array.data for array in arrays.values()]
        is_taken = self._disk.write(
            namespace,
            HostPiece(node.head(), arrays, node.notes),
            on_done=lambda: self._post(lambda: self._end_loan(loan)),
        )
        if not is_taken:
            self._lent.pop(loan, None)
        return is_taken

    def _end_loan(self, loan: int) -> None:
        num_bytes = sum(view.nbytes for view in self._lent.pop(loan, ()))
        for taker in self._takers:
            taker.write_more(num_bytes)

    def touch(self, keys: Iterable[str]) -> None:
        used = list(keys)
        if used:
            self._disk.touch(used)

    def restore(self, taker: Taker, keys: Sequence[str], on_done: Callable[[], None]) -> None:
        """Keys in the order in which they can be taken: parents first. What is under way for
        another is not read twice."""
        restore = _Restore(len(keys), on_done)
        wanted = [key for key in keys if (taker, key) not in self._waiting]
        for key in keys:
            self._waiting.setdefault((taker, key), []).append(restore)
        for i in range(0, len(wanted), _PIECES_AT_ONCE):
            self._read(taker, wanted[i : i + _PIECES_AT_ONCE])

    def _read(self, taker: Taker, keys: Sequence[str]) -> None:
        def on_read(pieces: list[HostPiece | None]) -> None:
            self._post(lambda: self._arrived(taker, keys, pieces))

        self._disk.read(taker.namespace, keys, on_read)

    def _arrived(
        self, taker: Taker, keys: Sequence[str], pieces: Sequence[HostPiece | None]
    ) -> None:
        for key, piece in zip(keys, pieces, strict=True):
            try:
                taker.take_back(key, piece)
            except Exception:
                # Such as no memory: who waits goes on without it.
                logger.exception("prompt cache: a piece from disk could not be taken")
            for restore in self._waiting.pop((taker, key), ()):
                restore.num_pending -= 1
                if not restore.num_pending:
                    restore.on_done()
