"""A disk tier without a disk: what is behind the port, as a store sees it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from maxi_mlx.kv_cache.pieces import HostArray, HostPiece, PieceHead


def frozen(piece: HostPiece) -> HostPiece:
    """As it would come back: in bytes that nobody else has."""
    arrays = {
        name: HostArray(a.dtype, a.shape, memoryview(a.data.tobytes()))
        for name, a in piece.arrays.items()
    }
    return HostPiece(piece.head, arrays, dict(piece.notes))


class MemoryDisk:
    """Answers when `run` is called. Outlives the stores that use it, as a folder does."""

    def __init__(self) -> None:
        self.pieces: dict[str, dict[str, HostPiece]] = defaultdict(dict)
        self.touched: list[str] = []
        self.num_read = 0
        self.is_full = False
        self._posted: deque[Callable[[], None]] = deque()

    def post(self, function: Callable[[], None]) -> None:
        self._posted.append(function)

    def run(self) -> None:
        while self._posted:
            self._posted.popleft()()

    def listen(self, namespace: str, on_heads: Callable[[list[PieceHead]], None]) -> None:
        heads = [piece.head for piece in self.pieces[namespace].values()]
        self.post(lambda: on_heads(heads))

    def write(
        self, namespace: str, piece: HostPiece, *, on_done: Callable[[], None] | None = None
    ) -> bool:
        if self.is_full:
            return False
        assert on_done is not None
        self.post(on_done)
        self.pieces[namespace].setdefault(piece.head.key, frozen(piece))
        return True

    def read(
        self,
        namespace: str,
        keys: Sequence[str],
        on_done: Callable[[list[HostPiece | None]], None],
    ) -> None:
        self.num_read += len(keys)
        self.post(lambda: on_done([self.pieces[namespace].get(key) for key in keys]))

    def holds(self, key: str) -> bool:
        return any(key in pieces for pieces in self.pieces.values())

    def touch(self, keys: Sequence[str]) -> None:
        self.touched += keys
