"""The prompt cache's folder: where pieces lie, how they get there whole, and how they go.

    FOLDER/v1/ROOT KEY/namespace.json                  which model it is, for people
    FOLDER/v1/ROOT KEY/3f/KEY-PARENT.safetensors       a piece; 3f are the key's first digits
    FOLDER/v1/ROOT KEY/3f/KEY.RANDOM.tmp               one being written, locked by its writer

The parent stands in the name, so that names alone say what hangs together. A file appears under
its name at once and whole. Nothing is synced to the medium: after a power cut a file can be
anything, and its checksums tell. Several processes may share a folder, so each file may be gone at
any time. Files with other names are left alone. Knows no thread and no limit.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from maxi_mlx.catalog.roots import home_models_dir
from maxi_mlx.kv_cache.disk.index import PieceFile
from maxi_mlx.kv_cache.disk.piece_file import (
    LENGTH_BYTES,
    BrokenPiece,
    Header,
    decode,
    decode_header,
    header_bytes,
)
from maxi_mlx.kv_cache.pieces import HostPiece, PieceHead, root_key

NAMESPACE_FILE = "namespace.json"
_PIECE_NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]{32})\.safetensors")
_TEMPORARY_NAME = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{8}\.tmp")
_TEMPORARY_NOTE = re.compile(r"namespace\.json\.[0-9a-f]{8}\.tmp")
_ROOT_NAME = re.compile(r"[0-9a-f]{32}")
_SHARD_NAME = re.compile(r"[0-9a-f]{2}")
_FIRST_READ_BYTES = 16384  # holds most headers
# Other programs need room, and a full disk harms more than a cold cache.
_MIN_FREE_BYTES = 2_000_000_000
_MIN_FREE_SHARE = 0.05
_UNLOCKABLE_AGE_S = 3600.0
_NUM_TRIES = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in the folder. ``temporary`` are paths of files being written, or left over."""

    files: list[PieceFile]
    temporary: list[str]
    temporary_bytes: int


def default_folder() -> Path:
    return home_models_dir().parent / "cache" / "kv"


def min_free_bytes(disk_bytes: int) -> int:
    """What of a disk of this size the cache leaves to others: 2 GB, or 5 % of a small disk."""
    return min(_MIN_FREE_BYTES, int(disk_bytes * _MIN_FREE_SHARE))


class CacheFolder:
    """Any thread may use it; what fails raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base = os.path.join(path, "v1")

    def prepare(self) -> None:
        """Makes the folder where it isn't there. For this user alone: it holds people's prompts."""
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise NotADirectoryError(errno.ENOTDIR, "it is not a folder")
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._base, 0o700)
        status = os.lstat(self._base)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "v1 in it is not a folder")
        if status.st_uid != os.geteuid():
            # Whoever owns it could put answers into our mouth.
            raise PermissionError(errno.EACCES, "v1 in it belongs to another user")
        if status.st_mode & 0o077:
            os.chmod(self._base, 0o700)

    def exists(self) -> bool:
        return os.path.isdir(self._base)

    def listing(self) -> Listing:
        """All that is ours, by names and sizes; no file is opened."""
        files: list[PieceFile] = []
        temporary: list[str] = []
        temporary_bytes = 0
        for root in _folders(self._base, _ROOT_NAME):
            notes = [e.path for e, _ in _files(root.path) if _TEMPORARY_NOTE.fullmatch(e.name)]
            temporary.extend(notes)
            for shard in _folders(root.path, _SHARD_NAME):
                for entry, status in _files(shard.path):
                    name = _PIECE_NAME.fullmatch(entry.name)
                    if name and name[1] != root.name:
                        size, used_ns = status.st_size, status.st_mtime_ns
                        files.append(PieceFile(root.name, name[1], name[2], size, used_ns))
                    elif _TEMPORARY_NAME.fullmatch(entry.name):
                        temporary.append(entry.path)
                        temporary_bytes += status.st_size
        return Listing(files, temporary, temporary_bytes)

    def roots(self) -> list[str]:
        return sorted(entry.name for entry in _folders(self._base, _ROOT_NAME))

    def namespace_of(self, root: str) -> str | None:
        """The text that a root key was made of, where the note of it is there and right."""
        try:
            with open(os.path.join(self._base, root, NAMESPACE_FILE), "rb") as file:
                namespace = json.loads(file.read(1_000_000))["namespace"]
            return str(namespace) if root_key(namespace) == root else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def free_bytes(self, *, min_free: int | None = None) -> int:
        """What may still be written; negative where others have taken more."""
        disk = os.statvfs(self._base)
        if min_free is None:
            min_free = min_free_bytes(disk.f_blocks * disk.f_frsize)
        return disk.f_bavail * disk.f_frsize - min_free

    def write(
        self, namespace: str, head: PieceHead, parts: Sequence[bytes | memoryview]
    ) -> PieceFile:
        """Puts a piece there, whole or not at all; ``parts`` is what `encode` made of it. Raises
        ValueError for keys that are none."""
        root = root_key(namespace)
        file = PieceFile(root, head.key, head.parent, sum(map(len, parts)), 0)
        path = self.path_of(file)
        if not _PIECE_NAME.fullmatch(os.path.basename(path)):
            raise ValueError(f"{head.key!r} of {head.parent!r} is no key of a piece")
        folder = os.path.dirname(path)
        for num_left in reversed(range(_NUM_TRIES)):
            temporary = os.path.join(folder, f"{head.key}.{secrets.token_hex(4)}.tmp")
            try:
                return replace(file, used_ns=_write_file(temporary, parts, path))
            except FileNotFoundError:
                # The first of its folder; or somebody has just cleared the cache, or has taken
                # the file for a leftover before it was locked.
                if not num_left or not self.exists():
                    raise
            # Another server that starts may take its note for a leftover, as it may the file.
            with contextlib.suppress(FileNotFoundError):
                self._make_folder(namespace, folder)
        raise AssertionError("not reached")

    def read(self, file: PieceFile) -> tuple[Header, HostPiece]:
        """Raises BrokenPiece for a file that isn't whole or isn't what its name says."""
        with _opened(self.path_of(file)) as descriptor:
            buffer = bytearray(os.fstat(descriptor).st_size)
            with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as stream:
                view = memoryview(buffer)
                while view:
                    count = stream.readinto(view)
                    if not count:
                        raise BrokenPiece("became shorter as it was read")
                    view = view[count:]
        header, piece = decode(buffer)
        _check_name(file, header)
        return header, piece

    def read_header(self, file: PieceFile) -> Header:
        """The same without the data, of which nothing is read but what came along."""
        with _opened(self.path_of(file)) as descriptor:
            file_bytes = os.fstat(descriptor).st_size
            raw = os.pread(descriptor, _FIRST_READ_BYTES, 0)
            num_bytes = header_bytes(raw[:LENGTH_BYTES], file_bytes)
            if num_bytes > len(raw):
                raw += os.pread(descriptor, num_bytes - len(raw), len(raw))
        header = decode_header(raw[:num_bytes], file_bytes)
        _check_name(file, header)
        return header

    def touch(self, file: PieceFile) -> None:
        """It was used now. Raises FileNotFoundError where it is gone."""
        os.utime(self.path_of(file), ns=(file.used_ns, file.used_ns))

    def remove(self, file: PieceFile) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path_of(file))

    def remove_leftovers(self, temporary: Sequence[str], *, min_age_s: float) -> int:
        """Removes files whose writers have died; gives their number."""
        return sum(_remove_leftover(path, min_age_s) for path in temporary)

    def remove_empty(self, root: str) -> None:
        """Removes a namespace's folder, if no piece is left in it."""
        folder = os.path.join(self._base, root)
        for shard in list(_folders(folder, _SHARD_NAME)):
            with contextlib.suppress(OSError):
                os.rmdir(shard.path)
        if any(_folders(folder, _SHARD_NAME)):
            return
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, NAMESPACE_FILE))
        with contextlib.suppress(OSError):
            os.rmdir(folder)

    def path_of(self, file: PieceFile) -> str:
        name = f"{file.key}-{file.parent}.safetensors"
        return os.path.join(self._base, file.root, file.key[:2], name)

    def _make_folder(self, namespace: str, folder: str) -> None:
        root = os.path.dirname(folder)
        with contextlib.suppress(FileExistsError):
            os.mkdir(root, 0o700)
        note = os.path.join(root, NAMESPACE_FILE)
        if not os.path.exists(note):
            temporary = f"{note}.{secrets.token_hex(4)}.tmp"
            text = json.dumps({"namespace": namespace}, ensure_ascii=False, indent=1)
            _write_file(temporary, [text.encode()], note)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _write_file(temporary: str, parts: Sequence[bytes | memoryview], path: str) -> int:
    """Writes under the temporary name, locked for as long as that takes, then renames. Gives the
    time of its last change."""
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        try:
            with contextlib.suppress(OSError):  # no locks here: then its age protects it
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[file.write(view) :]
            os.replace(temporary, path)
            return os.fstat(descriptor).st_mtime_ns
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _remove_leftover(path: str, min_age_s: float) -> bool:
    """The kernel drops the lock of whoever dies, so a file that can be locked has no writer, or a
    writer that has only just made it."""
    try:
        with _opened(path) as descriptor:
            age_s = max(0.0, time.time() - os.fstat(descriptor).st_mtime)
            if age_s < min_age_s:
                return False
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:
                if age_s < _UNLOCKABLE_AGE_S:
                    return False
            os.unlink(path)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """A pipe by that name is not waited for, and a link not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_name(file: PieceFile, header: Header) -> None:
    head = header.head
    if root_key(header.namespace) != file.root:
        raise BrokenPiece(f"belongs to another model ({header.namespace[:200]!r})")
    if (head.key, head.parent) != (file.key, file.parent):
        raise BrokenPiece(f"is another piece than its name says ({head.key} of {head.parent})")


def _folders(path: str, name: re.Pattern[str]) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
        for entry in entries:
            if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry


def _files(path: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # removed since
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield entry, status
