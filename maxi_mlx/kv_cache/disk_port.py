"""What the memory side asks of a disk tier. It knows no folder and no file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from maxi_mlx.kv_cache.pieces import HostPiece, PieceHead


class DiskPort(Protocol):
    """Nothing here waits for the disk. Callbacks come on the disk's thread, or at once."""

    def listen(self, namespace: str, on_heads: Callable[[list[PieceHead]], None]) -> None:
        """Tells once which pieces of the namespace there are, when that is known."""

    def write(
        self, namespace: str, piece: HostPiece, *, on_done: Callable[[], None] | None = None
    ) -> bool:
        """Takes the piece to be written some time, after its parent; False where there is no room
        or no disk. After True ``on_done`` is called once, when the piece is let go of."""

    def read(
        self,
        namespace: str,
        keys: Sequence[str],
        on_done: Callable[[list[HostPiece | None]], None],
    ) -> None:
        """One entry a key, None for what is no longer there or is damaged."""

    def holds(self, key: str) -> bool:
        """Whether a piece is there, or on its way there."""

    def touch(self, keys: Sequence[str]) -> None:
        """They were used again: they are young."""
