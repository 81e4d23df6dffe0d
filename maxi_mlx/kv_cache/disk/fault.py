"""What is wrong with the disk, in words for whoever runs the server."""

from __future__ import annotations

import errno
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


def fault_text(error: OSError, folder: Path) -> str:
    """``FOLDER: reason; remedy``."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{folder}: {reason[:1].lower()}{reason[1:]}; {_remedy(error.errno)}"


def _remedy(number: int | None) -> str:
    if number in _FULL:
        return "make room on this disk, or choose a folder on another one with --cache-dir"
    if number in _FORBIDDEN:
        return "let this user write there, or choose another folder with --cache-dir"
    if number in _GONE:
        return "put the folder back, or choose another one with --cache-dir"
    return "look after this disk, or choose a folder on another one with --cache-dir"
