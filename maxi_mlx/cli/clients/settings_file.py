"""A client's settings file on the disk: changed at once or not at all, with a copy of what it was.

Owns nothing between calls; blocks on the file system.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from maxi_mlx.cli.clients.documents import FORMAT_NAMES, Unreadable, merged_text
from maxi_mlx.cli.clients.guide import SettingsFile
from maxi_mlx.cli.clients.merging import Conflict
from maxi_mlx.core.errors import SetupError

NEW_FILE_MODE = 0o600  # there may be a key in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was done: nothing, where ``changed`` is empty. ``backup`` is None for a new file."""

    path: Path
    changed: tuple[str, ...]
    backup: Path | None


def write_settings(file: SettingsFile) -> Written:
    """Merges the settings into the file. Raises SetupError, and has then changed nothing."""
    with _explained(file.path):
        target = Path(os.path.realpath(file.path))  # a link stays one
        old = _read(target)
    text, changed = _merged(file, _decoded(file, old or b""))
    if not changed:
        return Written(path=file.path, changed=(), backup=None)
    with _explained(file.path):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        backup = _copied(target, old) if old is not None else None
        _replace(target, text.encode())
    return Written(path=file.path, changed=tuple(changed), backup=backup)


def _merged(file: SettingsFile, old: str) -> tuple[str, list[str]]:
    try:
        return merged_text(file, old)
    except Unreadable as error:
        raise _left_alone(
            file, f"is no {FORMAT_NAMES[file.format]} that can be read ({error})"
        ) from error
    except Conflict as error:
        raise _left_alone(file, f"can't take these settings: {error}") from error


def _decoded(file: SettingsFile, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _left_alone(file, f"is no text in UTF-8 ({error.reason})") from error


def _left_alone(file: SettingsFile, what: str) -> SetupError:
    return SetupError(
        f"{file.path} {what}, and was left as it is; mend it, or put the settings in by hand, as "
        "the same command prints them without --write"
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _copied(path: Path, content: bytes) -> Path:
    """A copy under the first name that is free: none is ever written over."""
    mode = stat.S_IMODE(path.stat().st_mode)
    for number in itertools.count():
        backup = path.with_name(f"{path.name}.bak{f'.{number}' if number else ''}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as copy:
            copy.write(content)
        return backup
    raise AssertionError("there is always another number")


def _replace(path: Path, content: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_FILE_MODE
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SetupError(f"{path} can't be written: {reason}; nothing was changed") from error
