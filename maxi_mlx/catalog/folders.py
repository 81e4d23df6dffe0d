"""Lists folders, and remembers a listing for as long as the folder hasn't changed.

Owns the listings; lives under the catalog's lock. Does not know what a model is.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from dataclasses import dataclass

from maxi_mlx.catalog.names import printable

logger = logging.getLogger(__name__)

# A change within the clock's granularity after a look leaves no trace in the times. The coarsest
# file systems count in two seconds, so nothing younger than that is remembered.
SETTLE_NS = 2_000_000_000

_GONE = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds, through symlinks. Pipes, sockets and devices are left out.

    ``identity`` is the same for two paths to one folder. ``folders`` has the real ones first.
    """

    identity: tuple[int, int]
    files: frozenset[str]
    folders: tuple[str, ...]
    dangling: frozenset[str]  # symlinks to nothing


Stamp = tuple[int, int, int, int]


def stamp_of(status: os.stat_result) -> Stamp:
    """Differs after any change. ctime, because copying tools set mtime back."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def is_settled(status: os.stat_result) -> bool:
    return abs(time.time_ns() - status.st_ctime_ns) > SETTLE_NS


class FolderReader:
    """Listings by path. What a scan didn't ask for is dropped by `forget_unread`."""

    def __init__(self) -> None:
        self._listings: dict[str, tuple[Stamp, Listing]] = {}
        self._read: set[str] = set()
        self._unreadable: set[str] = set()

    def list(self, path: str) -> Listing | None:
        """None where there is no such folder, or it can't be read (which is logged once)."""
        self._read.add(path)
        try:
            status = os.stat(path)
            stamp = stamp_of(status)
            kept = self._listings.get(path)
            if kept is not None and kept[0] == stamp:
                return kept[1]
            self._listings.pop(path, None)
            if not stat.S_ISDIR(status.st_mode):
                return None
            listing = _list(path, status)
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            self._listings.pop(path, None)
            self._note_unreadable(path, error)
            return None
        self._unreadable.discard(path)
        # A dangling symlink may come to life without a change of the folder that holds it.
        if is_settled(status) and not listing.dangling:
            self._listings[path] = (stamp, listing)
        return listing

    def forget_unread(self) -> None:
        """Ends a scan."""
        for path in self._listings.keys() - self._read:
            del self._listings[path]
        self._unreadable &= self._read
        self._read.clear()

    def _note_unreadable(self, path: str, error: OSError | ValueError) -> None:
        if isinstance(error, OSError) and error.errno in _GONE:
            return
        if path not in self._unreadable:
            self._unreadable.add(path)
            reason = error.strerror if isinstance(error, OSError) else error
            logger.warning(
                "The folder %s can't be read (%s): models in it are not listed",
                printable(path),
                reason,
            )


def _list(path: str, status: os.stat_result) -> Listing:
    files: list[str] = []
    real: list[str] = []
    linked: list[str] = []
    dangling: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    # Hidden files are never a model's; macOS leaves ._model.safetensors on disks.
                    if not entry.name.startswith("."):
                        files.append(entry.name)
                elif entry.is_dir():
                    (linked if entry.is_symlink() else real).append(entry.name)
                elif entry.is_symlink():
                    dangling.append(entry.name)
            except OSError:  # a symlink to itself
                dangling.append(entry.name)
    return Listing(
        identity=(status.st_dev, status.st_ino),
        files=frozenset(files),
        folders=(*sorted(real), *sorted(linked)),
        dangling=frozenset(dangling),
    )
