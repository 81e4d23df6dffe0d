"""Reads a model's weight files on a worker thread, so that the system has them in memory when the
device asks for them, and nobody's answer waits for a disk.

Keeps nothing of what it reads. The device thread asks how far it has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from maxi_mlx.catalog.model_files import BrokenFile
from maxi_mlx.catalog.weights import read_places
from maxi_mlx.engine.loading import Loading, Steps, pieces, result_of

if TYPE_CHECKING:
    import mlx.core as mx

_CHUNK_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Places:
    """Where tensors end, by name, in bytes from the first file's beginning."""

    files: tuple[Path, ...]
    ends: Mapping[str, int]


def places_of(files: Sequence[Path]) -> Places:
    """By the files' headers. Raises BrokenFile for one that is gone or cut short."""
    ends: dict[str, int] = {}
    start = 0
    for file in files:
        try:
            ends |= {name: start + end for name, (_, end) in read_places(file).items()}
            start += file.stat().st_size
        except (BrokenFile, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise BrokenFile(f"{file.name} {reason}") from None
    return Places(tuple(files), ends)


class ReadAhead:
    """``run`` is a worker thread's; ``reached`` may be asked by any."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = Lock()
        self._num_read = 0
        self._is_over = False
        self._waiting: list[tuple[int, Future[None]]] = []

    def run(self) -> None:
        """What can't be read is not told here: whoever loads it will meet it."""
        try:
            for file in self._places.files:
                self._read(file)
        except OSError:
            pass
        finally:
            self._advance(0, is_over=True)

    def stop(self) -> None:
        self._advance(0, is_over=True)

    def reached(self, end: int) -> Future[None]:
        """Done once so many bytes are read, or nothing more will be."""
        future: Future[None] = Future()
        with self._lock:
            if not self._is_over and self._num_read < end:
                self._waiting.append((end, future))
                return future
        future.set_result(None)
        return future

    def _read(self, file: Path) -> None:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        with open(file, "rb", buffering=0) as stream:
            while not self._is_over and (num_bytes := stream.readinto(buffer)):
                self._advance(num_bytes)

    def _advance(self, num_bytes: int, *, is_over: bool = False) -> None:
        with self._lock:
            self._num_read += num_bytes
            self._is_over = self._is_over or is_over
            done = [
                future for end, future in self._waiting if self._is_over or end <= self._num_read
            ]
            self._waiting = [(end, future) for end, future in self._waiting if future not in done]
        for future in done:
            future.set_result(None)


def evaluate_behind(
    loading: Loading, arrays: Mapping[str, mx.array], files: Sequence[Path]
) -> Steps[None]:
    """Brings a model's arrays into memory in the order of its files, which are read ahead of them.
    Arrays that were made of several tensors come last."""
    if loading.threads is None:
        yield from loading.evaluate(arrays.values())
        return
    places = yield from loading.elsewhere(partial(places_of, files))
    last = max(places.ends.values(), default=0)
    ends = sorted(
        ((places.ends.get(name, last), array) for name, array in arrays.items()),
        key=lambda placed: placed[0],
    )
    ahead = ReadAhead(places)
    loading.begin(ahead.run)
    try:
        for piece in pieces(ends, lambda placed: placed[1].nbytes):
            yield from result_of(ahead.reached(piece[-1][0]))
            loading.bring([array for _, array in piece])
            yield None
    finally:
        ahead.stop()
