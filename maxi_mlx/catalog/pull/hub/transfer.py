"""Fetches one file into its part, goes on where the part ends, and checks the whole.

part of an earlier run ─hash─► bytes from its end on ─hash─► the digest that the hub told
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from maxi_mlx.catalog.pull.hub.files import HubFile
from maxi_mlx.catalog.pull.hub.library import Broken, HubLibrary
from maxi_mlx.catalog.pull.hub.repository import Repository
from maxi_mlx.catalog.pull.progress import Progress
from maxi_mlx.core.errors import DownloadFailed

if TYPE_CHECKING:
    from hashlib import _Hash

# In a row without a byte between them.
MAX_FAILURES = 5
FIRST_PAUSE_S = 0.5
READ_BYTES = 1024 * 1024


class Abandoned(Exception):
    """Nobody wants the model any more. What is there of it stays."""


class Transfer:
    """One file's way to its part. Lives on the thread that fetches."""

    def __init__(
        self,
        hub: HubLibrary,
        repository: Repository,
        file: HubFile,
        *,
        commit: str,
        part: Path,
        progress: Progress,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._hub = hub
        self._repository = repository
        self._file = file
        self._commit = commit
        self._part = part
        self._progress = progress
        self._is_wanted = is_wanted
        self._have = 0
        self._hash = _new_hash(file)

    def run(self) -> None:
        """Raises DownloadFailed where the file can't be had or is damaged; Abandoned."""
        with self._part.open("a+b", buffering=0) as part:
            self._take_up(part)
            self._fetch(part)
            os.fsync(part.fileno())
        if self._hash.hexdigest() != self._file.digest:
            self._part.unlink()
            raise DownloadFailed(
                f"{self._file.path} of {self._repository} came damaged: its checksum is "
                f"{self._hash.hexdigest()[:12]}… and not {self._file.digest[:12]}…. It was "
                "removed; run the command again to fetch it anew."
            )

    def _take_up(self, part: BinaryIO) -> None:
        """What an earlier run left counts into the checksum."""
        part.seek(0)
        while chunk := part.read(READ_BYTES):
            self._check_wanted()
            self._hash.update(chunk)
            self._have += len(chunk)
        if self._have > self._file.num_bytes:
            self._begin_anew(part)

    def _fetch(self, part: BinaryIO) -> None:
        num_failures = 0
        while self._have < self._file.num_bytes:
            before = self._have
            try:
                self._read_on(part)
                if self._have == before:
                    raise Broken("the connection was closed early")
            except Broken as error:
                num_failures = 1 if self._have != before else num_failures + 1
                if num_failures >= MAX_FAILURES:
                    raise DownloadFailed(
                        f"{self._repository} broke off: {error}. What is there is kept; run the "
                        "command again to go on from there."
                    ) from error
                self._progress.say(f"The download broke off ({error}); going on.")
                self._wait(FIRST_PAUSE_S * 2 ** (num_failures - 1))

    def _read_on(self, part: BinaryIO) -> None:
        with self._hub.reading(
            self._repository, self._file.path, commit=self._commit, start=self._have
        ) as (start, chunks):
            if start != self._have:
                self._progress.advance(-self._have)
                self._begin_anew(part)
            for chunk in chunks:
                self._check_wanted()
                if self._have + len(chunk) > self._file.num_bytes:
                    raise DownloadFailed(
                        f"{self._hub.endpoint} sends more of {self._file.path} than it said. Name "
                        "another mirror by --from, or try again later."
                    )
                _write_all(part, chunk)
                self._hash.update(chunk)
                self._have += len(chunk)
                self._progress.advance(len(chunk))

    def _begin_anew(self, part: BinaryIO) -> None:
        part.truncate(0)
        self._have, self._hash = 0, _new_hash(self._file)

    def _wait(self, pause_s: float) -> None:
        ends_s = time.monotonic() + pause_s
        while (left_s := ends_s - time.monotonic()) > 0:
            self._check_wanted()
            time.sleep(min(left_s, 0.2))

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise Abandoned


def _write_all(part: BinaryIO, chunk: bytes) -> None:
    """A disk that gets full may take the beginning, and says so by the count alone."""
    left = memoryview(chunk)
    while left:
        left = left[part.write(left) :]


def _new_hash(file: HubFile) -> _Hash:
    if file.is_large:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.num_bytes, usedforsecurity=False)
