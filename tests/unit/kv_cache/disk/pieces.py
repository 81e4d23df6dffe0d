"""Pieces to keep, and a tier to keep them in, that says when it is done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxi_mlx.kv_cache.disk.tier import DiskTier
from maxi_mlx.kv_cache.pieces import (
    HostArray,
    HostPiece,
    PieceHead,
    PieceKind,
    piece_key,
    root_key,
)

NAMESPACE = "tiny-llama | 0123abcd | plain"
OTHER_NAMESPACE = "tiny-gemma3 | 0123abcd | states"
TIMEOUT_S = 60
LONG_AGO_S = 10**9


def piece(
    parent: str,
    token_ids: Sequence[int],
    *,
    kind: PieceKind = "block",
    start: int = 0,
    num_bytes: int = 1024,
) -> HostPiece:
    """A piece whose data follows from its key, so that a mix-up shows."""
    key = piece_key(parent, kind, token_ids)
    data = (bytes.fromhex(key) * (num_bytes // 16 + 1))[:num_bytes]
    array = HostArray("U8", (1, num_bytes), memoryview(data))
    head = PieceHead(key, parent, kind, start, tuple(token_ids))
    return HostPiece(head, {"0.keys": array}, {"offset": start + len(token_ids), "step": None})


def chain(
    length: int, *, namespace: str = NAMESPACE, first: int = 0, **more: Any
) -> list[HostPiece]:
    """Blocks of four tokens, each the next one's parent."""
    pieces: list[HostPiece] = []
    parent = root_key(namespace)
    for number in range(length):
        token_ids = range(first + number, first + number + 4)
        pieces.append(piece(parent, token_ids, start=4 * number, **more))
        parent = pieces[-1].head.key
    return pieces


def keys(pieces: Sequence[HostPiece]) -> list[str]:
    return [kept.head.key for kept in pieces]


def same(found: HostPiece | None, expected: HostPiece) -> bool:
    return (
        found is not None
        and (found.head, found.notes) == (expected.head, expected.notes)
        and {name: (a.dtype, a.shape, bytes(a.data)) for name, a in found.arrays.items()}
        == {name: (a.dtype, a.shape, bytes(a.data)) for name, a in expected.arrays.items()}
    )


@contextmanager
def running(folder: Path, limit_bytes: int = 10**9, **more: Any) -> Iterator[DiskTier]:
    tier = DiskTier(folder, limit_bytes, **more)
    tier.start()
    try:
        yield tier
    finally:
        tier.close()


def read(tier: DiskTier, wanted: Sequence[str], *, namespace: str = NAMESPACE) -> Any:
    return answer(lambda tell: tier.read(namespace, wanted, tell))


def heads(tier: DiskTier, *, namespace: str = NAMESPACE) -> list[PieceHead]:
    found: list[PieceHead] = answer(lambda tell: tier.listen(namespace, tell))
    return found


def answer(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """What the callback gets."""
    answers: list[Any] = []
    is_told = threading.Event()

    def tell(value: Any) -> None:
        answers.append(value)
        is_told.set()

    ask(tell)
    assert is_told.wait(TIMEOUT_S)
    return answers[0]


def write_all(tier: DiskTier, pieces: Sequence[HostPiece], *, namespace: str = NAMESPACE) -> None:
    """Returns when nothing of them is waiting any more."""
    for kept in pieces:
        assert tier.write(namespace, kept)
    wait_until(lambda: not tier.stats.num_queued_bytes)


def wait_until(condition: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < limit_s
        time.sleep(0.002)


def files(folder: Path) -> list[Path]:
    """Pieces on disk."""
    return sorted(folder.glob("v1/*/??/*.safetensors"))


def file_of(folder: Path, key: str) -> Path:
    (found,) = folder.glob(f"v1/*/??/{key}-*.safetensors")
    return found


def age(folder: Path, key: str, used_s: float = LONG_AGO_S) -> None:
    """As if it had been used then."""
    os.utime(file_of(folder, key), (used_s, used_s))


def fill(folder: Path, pieces: Sequence[HostPiece], *, namespace: str = NAMESPACE) -> None:
    """As an earlier server has left it."""
    with running(folder) as tier:
        write_all(tier, pieces, namespace=namespace)


def total(folder: Path) -> int:
    return sum(path.stat().st_size for path in files(folder))


class stopped:
    """The disk thread is held in a callback meanwhile."""

    def __init__(self, tier: DiskTier) -> None:
        self._tier = tier
        self._may_go_on = threading.Event()

    def __enter__(self) -> None:
        is_held = threading.Event()

        def hold(_: object) -> None:
            is_held.set()
            self._may_go_on.wait(60)

        self._tier.read(NAMESPACE, [], hold)
        assert is_held.wait(60)

    def __exit__(self, *_: object) -> None:
        self._may_go_on.set()
