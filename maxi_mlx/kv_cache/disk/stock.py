"""The pieces on disk as the disk thread works with them: found, written, read, and dropped in time.

Keeps to the limit, which holds for all models and all processes that share the folder. It leaves
room below it: a process looks at what others have written each time it has written a 64th of the
limit, and makes room for a 32nd. So two processes together stay below the limit.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import time
from collections.abc import Iterable, Iterator

from maxi_mlx.kv_cache.disk.folder import CacheFolder
from maxi_mlx.kv_cache.disk.index import FileIndex, PieceFile
from maxi_mlx.kv_cache.disk.piece_file import BrokenPiece, OtherVersion, encode
from maxi_mlx.kv_cache.pieces import HostPiece, PieceHead, root_key

logger = logging.getLogger(__name__)

_LOOK_SHARE = 1 / 64
_SPARE_SHARE = 1 / 32
_LOOK_PERIOD_S = 10.0
_FRESH_S = 1.0
# Looking through the folder takes no more than this of the time.
_LOOK_TIME_SHARE = 1 / 50
_HEADS_AT_ONCE = 32
_LEFTOVER_AGE_S = 60.0


class Stock:
    """Lives on the disk thread. Others may ask ``in``, and read the counts."""

    def __init__(
        self, folder: CacheFolder, limit_bytes: int, *, min_free_bytes: int | None = None
    ) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self.most_bytes = int(limit_bytes * (1 - _SPARE_SHARE))
        self._min_free_bytes = min_free_bytes
        self._temporary_bytes = 0
        self._unseen_bytes = 0  # written since the last look
        self._looked_s = float("-inf")
        self._look_took_s = 0.0
        self.index = FileIndex()
        self.num_written = 0
        self.num_read = 0
        self.num_dropped = 0
        self.num_evicted = 0

    def __contains__(self, key: str) -> bool:
        return key in self.index

    def open(self) -> None:
        """Finds what is there, removes what can't be used, and keeps to the limit. Raises
        OSError."""
        self._folder.prepare()
        self._look(leftover_age_s=0)
        orphans = self.index.orphans(time.time_ns())
        for file in orphans:
            self._remove(file)
        if orphans:
            self.num_dropped += len(orphans)
            logger.info("prompt cache: removed %d pieces whose beginning is gone", len(orphans))
        self._keep_to_limit()

    def heads(self, namespace: str) -> Iterator[list[PieceHead]]:
        """The namespace's heads, parents first, a few at a time. Only chains without a gap."""
        root = root_key(namespace)
        reached = {root}
        while files := [f for f in self.index.chains(root) if f.key not in reached]:
            num_reached = len(reached)
            for start in range(0, len(files), _HEADS_AT_ONCE):
                heads = []
                for file in files[start : start + _HEADS_AT_ONCE]:
                    head = self._head(file) if file.parent in reached else None
                    if head is not None:
                        reached.add(file.key)
                        heads.append(head)
                yield heads
            # Meanwhile more may have been written.
            if len(reached) == num_reached:
                return

    def read(self, namespace: str, key: str) -> HostPiece | None:
        """None for a piece that is gone or can't be used."""
        file = self.index.get(key)
        if file is None or file.root != root_key(namespace):
            return None
        try:
            _, piece = self._folder.read(file)
        except FileNotFoundError:
            self.index.remove(key)
            return None
        except BrokenPiece as error:
            self._drop(file, error)
            return None
        except OSError as error:
            logger.warning("prompt cache: can't read %s: %s", self._folder.path_of(file), error)
            self.index.remove(key)
            return None
        self.num_read += 1
        return piece

    def write(self, namespace: str, piece: HostPiece) -> bool:
        """False for a piece that nothing leads to, or that has no room beside what leads to it.
        Raises OSError, and ValueError for what is no piece."""
        head = piece.head
        self._look_now_and_then()
        if head.key in self.index:
            self.touch([head.key])
            return True
        if head.parent != root_key(namespace):
            self.touch([head.parent])
            if head.parent not in self.index:
                return False
        parts = encode(namespace, piece)
        num_bytes = sum(map(len, parts))
        if num_bytes > self.most_bytes or not self._make_room(num_bytes, head.parent):
            return False
        file = self._folder.write(namespace, head, parts)
        self.index.add(file)
        self._unseen_bytes += file.num_bytes
        self.num_written += 1
        return True

    def touch(self, keys: Iterable[str]) -> None:
        now_ns = time.time_ns()
        for key in keys:
            file = self.index.use(key, now_ns)
            try:
                if file is not None:
                    self._folder.touch(file)
            except FileNotFoundError:
                self.index.remove(key)
            except OSError:
                return  # it only counts as older than it is

    def look_if_due(self) -> None:
        """Sees what other processes have done. Raises OSError."""
        self._look_now_and_then()
        self._keep_to_limit()

    # -- room --------------------------------------------------------------------------------

    @property
    def _num_bytes(self) -> int:
        return self.index.num_bytes + self._temporary_bytes

    def _make_room(self, num_bytes: int, parent: str) -> bool:
        """False where the parent, or what it hangs on, would have to go for it."""
        if self._num_bytes + num_bytes <= self._room():
            return True
        if time.monotonic() - self._looked_s > _FRESH_S:
            self._look()  # others may have used what seems old, or removed much
        room = self._room()
        if room < num_bytes:
            mine = self.index.num_bytes / 1e9
            raise OSError(
                errno.ENOSPC,
                f"there is no room: beside {mine:.1f} GB of prompt cache the disk has only what "
                "is left to other programs",
            )
        # A little more at once, since choosing takes a look at every name.
        excess = self._num_bytes + num_bytes - room
        wanted = excess + int(room * _SPARE_SHARE) if excess > 0 else 0
        victims = self.index.victims(wanted, now_ns=time.time_ns(), but_not=parent)
        if sum(file.num_bytes for file in victims) < excess:
            return False
        self._evict(victims)
        return True

    def _room(self) -> int:
        """How many bytes there may be in all: by the limit, and by what the disk has free."""
        free_bytes = self._folder.free_bytes(min_free=self._min_free_bytes)
        return min(self.most_bytes, self._num_bytes + free_bytes)

    def _keep_to_limit(self) -> None:
        excess = self._num_bytes - self.most_bytes
        self._evict(self.index.victims(excess, now_ns=time.time_ns()))

    def _evict(self, victims: Iterable[PieceFile]) -> None:
        for file in victims:
            self._remove(file)
            self.num_evicted += 1

    def _look_now_and_then(self) -> None:
        age_s = time.monotonic() - self._looked_s
        is_due = age_s > max(_LOOK_PERIOD_S, self._look_took_s / _LOOK_TIME_SHARE)
        if is_due or self._unseen_bytes > self._limit_bytes * _LOOK_SHARE:
            self._look()

    def _look(self, *, leftover_age_s: float = _LEFTOVER_AGE_S) -> None:
        """Takes the folder as it is, without what killed processes left half-written."""
        began_s = time.monotonic()
        listing = self._folder.listing()
        num_removed = self._folder.remove_leftovers(listing.temporary, min_age_s=leftover_age_s)
        if num_removed:
            logger.info("prompt cache: removed %d half-written files", num_removed)
            listing = self._folder.listing()
        self.index = FileIndex(listing.files)
        self._temporary_bytes = listing.temporary_bytes
        self._unseen_bytes = 0
        self._looked_s = time.monotonic()
        self._look_took_s = self._looked_s - began_s

    # -- single files ------------------------------------------------------------------------

    def _head(self, file: PieceFile) -> PieceHead | None:
        try:
            return self._folder.read_header(file).head
        except FileNotFoundError:
            self.index.remove(file.key)
        except BrokenPiece as error:
            self._drop(file, error)
        except OSError as error:
            logger.warning("prompt cache: can't read %s: %s", self._folder.path_of(file), error)
            self.index.remove(file.key)
        return None

    def _drop(self, file: PieceFile, error: BrokenPiece) -> None:
        level = logging.INFO if isinstance(error, OtherVersion) else logging.WARNING
        path = self._folder.path_of(file)
        logger.log(level, "prompt cache: dropped a file: %s %s", path, error)
        self.num_dropped += 1
        self.index.remove(file.key)
        with contextlib.suppress(OSError):  # then the next look finds it again
            self._folder.remove(file)

    def _remove(self, file: PieceFile) -> None:
        """Raises OSError; one that can't be removed stays counted."""
        self._folder.remove(file)
        self.index.remove(file.key)
