"""Reads the small files of a model folder, with bounds, and says in a user's words what is wrong.

Knows JSON and files; does not know what the keys mean.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

MAX_JSON_BYTES = 16_000_000


class BrokenFile(Exception):
    """A file can't be used. The message follows the file's name: ``is not valid JSON (…)``."""


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The open file and its size. A pipe or a socket by that name is refused, not waited for."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BrokenFile("is not a regular file")
            yield file, status.st_size
    except OSError as error:
        raise BrokenFile(f"can't be read: {error.strerror}") from error


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """The whole of a file."""
    with open_regular(path) as (file, num_bytes):
        if num_bytes > max_bytes:
            raise BrokenFile(
                f"has {num_bytes / 1e6:,.0f} MB, more than the {max_bytes / 1e6:,.0f} MB that such "
                "a file may have"
            )
        return file.read(max_bytes)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    value = _read_json(path)
    if not isinstance(value, dict):
        raise BrokenFile("does not hold a JSON object")
    return value


def read_list(path: Path) -> list[Any]:
    """A JSON file that holds a list."""
    value = _read_json(path)
    if not isinstance(value, list):
        raise BrokenFile("does not hold a JSON list")
    return value


def _read_json(path: Path) -> Any:
    data = read_bytes(path, max_bytes=MAX_JSON_BYTES)
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BrokenFile("is not UTF-8 text") from error
    except RecursionError as error:
        raise BrokenFile("is nested too deeply") from error
    except ValueError as error:
        reason = str(error) if data.strip() else "it is empty"
        raise BrokenFile(f"is not valid JSON ({reason})") from error
