"""One process at a time. The lock is the kernel's, so a killed process leaves none behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from maxi_mlx.catalog.pull.progress import Progress


@contextlib.contextmanager
def locked(path: Path, progress: Progress) -> Iterator[int]:
    """Hold the lock file at ``path``, waiting for another process if there is one.

    Yields the descriptor. A child that inherits it keeps the lock for as long as it lives, even
    where its parent is killed. The file stays: removing it would let two processes hold two locks.
    Those who share a folder share its lock, hence its mode.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
    try:
        if not _could_lock(descriptor):
            progress.say("Another maxi-mlx is fetching this model already; waiting for it to end.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_at_once(path: Path) -> Iterator[bool]:
    """Whether nobody else holds the lock file, in this process or another; then it is held here. A
    file that isn't there was never locked, and isn't made."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        yield _could_lock(descriptor)
    finally:
        os.close(descriptor)


def _could_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
