"""The prompt cache's second tier: pieces on disk, written behind, found again after a restart.

    write ─► queue ─┐                    any thread calls; nothing waits for the disk
    read, listen ───┴─► disk thread ─► Stock ─► files
                           └─► callbacks, on the disk thread

Owns the queue and the thread. What is wrong with the disk costs the cache and one warning.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxi_mlx.kv_cache.disk.fault import fault_text
from maxi_mlx.kv_cache.disk.folder import CacheFolder
from maxi_mlx.kv_cache.disk.stock import Stock
from maxi_mlx.kv_cache.pieces import HostPiece, PieceHead, root_key

logger = logging.getLogger(__name__)

OnHeads = Callable[[list[PieceHead]], None]
OnPieces = Callable[[list[HostPiece | None]], None]

QUEUE_BYTES = 256 * 1024 * 1024
RETRY_S = 60.0
CLOSE_S = 5.0
_TOUCH_PERIOD_S = 5.0


@dataclass(frozen=True, slots=True)
class DiskStats:
    """``num_dropped`` were torn, foreign or older files, ``num_evicted`` went to keep the limit,
    ``num_skipped`` were not written. ``fault`` is what is wrong with the disk, for a user."""

    num_files: int
    num_bytes: int
    limit_bytes: int
    num_queued_bytes: int
    num_written: int
    num_read: int
    num_dropped: int
    num_evicted: int
    num_skipped: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """One namespace's share."""

    num_files: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class _Writing:
    namespace: str
    piece: HostPiece
    num_bytes: int
    on_done: Callable[[], None] | None


@dataclass(frozen=True, slots=True)
class _Reading:
    namespace: str
    keys: Sequence[str]
    on_done: OnPieces


class DiskTier:
    """Keeps at most ``limit_bytes`` in ``folder``, and ``queue_bytes`` of host memory for pieces
    waiting to be written. After a fault, writing is tried again every ``retry_s``. ``min_free``
    is what the disk's other users are left (2 GB, or 5 % of a small disk, if not given)."""

    def __init__(
        self,
        folder: Path,
        limit_bytes: int,
        *,
        queue_bytes: int = QUEUE_BYTES,
        retry_s: float = RETRY_S,
        min_free: int | None = None,
    ) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._queue_bytes = queue_bytes
        self._retry_s = retry_s
        self._stock = Stock(CacheFolder(folder), limit_bytes, min_free_bytes=min_free)
        self._news = threading.Condition()  # guards all below
        self._writings: OrderedDict[str, _Writing] = OrderedDict()
        self._queued_bytes = 0
        self._readings: deque[_Reading] = deque()
        self._listeners: deque[tuple[str, OnHeads]] = deque()
        self._touched: dict[str, None] = {}
        self._num_skipped = 0
        self._fault: str | None = None
        self._retry_at_s = 0.0
        self._warned: set[int | None] = set()
        self._is_open = False
        self._close_at_s: float | None = None
        # Of the disk thread alone.
        self._listing: Generator[None, None, None] | None = None
        self._touched_s = time.monotonic()
        self._must_open = False
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)

    def start(self) -> None:
        with self._news:
            self._is_open = True
        self._thread.start()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Ends the thread, once it has written what is queued or the time is over. What is then
        left is not written, and reads get nothing."""
        with self._news:
            was_open, self._is_open = self._is_open, False
            self._close_at_s = time.monotonic() + timeout_s
            self._news.notify()
        if was_open:
            self._thread.join(timeout_s + 1)
            if self._thread.is_alive():
                logger.warning("prompt cache: the disk of %s does not answer", self.folder)

    def listen(self, namespace: str, on_heads: OnHeads) -> None:
        """``on_heads`` gets all heads of the namespace, once, when they have been read; parents
        before children, and no piece whose parent is missing."""
        with self._news:
            if self._is_open:
                self._listeners.append((namespace, on_heads))
                self._news.notify()
                return
        on_heads([])

    def write(
        self, namespace: str, piece: HostPiece, *, on_done: Callable[[], None] | None = None
    ) -> bool:
        """Queues a piece, unless it is there already. False: no room in the queue, or the disk is
        off for now; then nothing is kept of it.

        Parents come first: a piece is skipped if its parent is not there by its turn. After True,
        ``on_done`` is called once, when nothing here refers to the piece any more, whether it was
        written or not: from the disk thread, or at once where the piece was there already.
        """
        key, num_bytes = piece.head.key, piece.num_bytes
        with self._news:
            if key in self._writings:
                is_queued = False
            elif not self._may_write(num_bytes):
                self._num_skipped += 1
                return False
            elif key in self._stock:
                is_queued = False
                self._touched[key] = None
            else:
                is_queued = True
                self._writings[key] = _Writing(namespace, piece, num_bytes, on_done)
                self._queued_bytes += num_bytes
            self._news.notify()
        if not is_queued:
            _tell(on_done)
        return True

    def read(self, namespace: str, keys: Sequence[str], on_done: OnPieces) -> None:
        """``on_done`` gets a piece for each key, None for what is gone or was no good. Reads come
        before queued writes."""
        with self._news:
            if self._is_open:
                self._readings.append(_Reading(namespace, tuple(keys), on_done))
                self._news.notify()
                return
        on_done([None] * len(keys))

    def holds(self, key: str) -> bool:
        # In this order: what is written is among the files before it leaves the queue.
        return key in self._writings or key in self._stock

    def touch(self, keys: Iterable[str]) -> None:
        """These were used: they count as young. Noted on disk a few seconds later."""
        with self._news:
            if not self._touched:
                self._news.notify()
            self._touched.update((key, None) for key in keys if key in self._stock)

    @property
    def stats(self) -> DiskStats:
        stock = self._stock
        with self._news:
            return DiskStats(
                num_files=len(stock.index),
                num_bytes=stock.index.num_bytes,
                limit_bytes=self.limit_bytes,
                num_queued_bytes=self._queued_bytes,
                num_written=stock.num_written,
                num_read=stock.num_read,
                num_dropped=stock.num_dropped,
                num_evicted=stock.num_evicted,
                num_skipped=self._num_skipped,
                fault=self._fault,
            )

    def usage(self, namespace: str) -> DiskUsage:
        return DiskUsage(*self._stock.index.usage(root_key(namespace)))

    def _may_write(self, num_bytes: int) -> bool:
        """A piece larger than the queue may wait alone."""
        if not self._is_open or num_bytes > self._stock.most_bytes:
            return False
        if self._fault is not None and time.monotonic() < self._retry_at_s:
            return False
        return not self._writings or self._queued_bytes + num_bytes <= self._queue_bytes

    # -- on the disk thread ------------------------------------------------------------------

    def _run(self) -> None:
        self._safely(self._stock.open)
        while job := self._next_job():
            self._safely(job)
        self._give_up_the_rest()

    def _safely(self, job: Callable[[], None]) -> None:
        """Whatever one piece raises, the next is done."""
        try:
            job()
        except OSError as error:
            self._switch_off(error)
        except Exception:
            logger.exception("prompt cache: a job of the disk thread failed; going on")

    def _next_job(self) -> Callable[[], None] | None:
        """Waits for one; None when the thread shall end."""
        with self._news:
            while True:
                if self._readings:
                    return self._read_one
                now_s = time.monotonic()
                is_closing = self._close_at_s is not None
                if self._close_at_s is None or now_s < self._close_at_s:
                    if self._listing is not None or self._listeners:
                        return self._list_some
                    if self._writings:
                        return self._write_one
                touch_in_s = self._touched_s + _TOUCH_PERIOD_S - now_s
                if self._touched and (is_closing or touch_in_s <= 0):
                    return self._note_touches
                if is_closing:
                    return None
                self._news.wait(max(touch_in_s, 0.1) if self._touched else None)

    def _read_one(self) -> None:
        with self._news:
            reading = self._readings.popleft()
        pieces: list[HostPiece | None] = [None] * len(reading.keys)
        try:
            for place, key in enumerate(reading.keys):
                pieces[place] = self._piece(reading.namespace, key)
        finally:
            _tell(reading.on_done, pieces)
        self.touch(key for key, piece in zip(reading.keys, pieces, strict=True) if piece)

    def _piece(self, namespace: str, key: str) -> HostPiece | None:
        with self._news:
            writing = self._writings.get(key)
        if writing is not None and writing.namespace == namespace:
            return writing.piece
        return self._stock.read(namespace, key)

    def _list_some(self) -> None:
        """A few heads at a time, so that a read need not wait for thousands."""
        if self._listing is None:
            with self._news:
                namespace, on_heads = self._listeners.popleft()
            self._listing = self._list(namespace, on_heads)
        try:
            next(self._listing)
        except StopIteration:
            self._listing = None
        except Exception:
            self._listing = None
            raise

    def _list(self, namespace: str, on_heads: OnHeads) -> Generator[None, None, None]:
        heads: list[PieceHead] = []
        try:
            for some in self._stock.heads(namespace):
                heads += some
                yield
        finally:
            known = {root_key(namespace), *(head.key for head in heads)}
            with self._news:
                for writing in self._writings.values():
                    head = writing.piece.head
                    if writing.namespace == namespace and head.parent in known:
                        known.add(head.key)
                        heads.append(head)
            _tell(on_heads, heads)

    def _write_one(self) -> None:
        with self._news:
            # It stays in the queue until it is written, so that a read finds it all the time.
            key, writing = next(iter(self._writings.items()))
        on_done = writing.on_done
        result = self._write(writing)
        del writing
        with self._news:
            self._forget(key)
            self._num_skipped += result is not True
        _tell(on_done)
        if isinstance(result, OSError):
            self._switch_off(result)

    def _write(self, writing: _Writing) -> bool | OSError:
        try:
            if self._must_open:
                self._stock.open()
                self._must_open = False
            is_written = self._stock.write(writing.namespace, writing.piece)
            if is_written and self._fault is not None:
                self._switch_on()
            return is_written
        except OSError as error:
            # Without its frames: they refer to the piece.
            return OSError(error.errno, error.strerror or str(error))
        except Exception as error:  # logged without its frames, which do too
            logger.error("prompt cache: a piece can't be written; going on: %s", repr(error))
            return False

    def _forget(self, key: str) -> None:
        writing = self._writings.pop(key, None)
        if writing is not None:
            self._queued_bytes -= writing.num_bytes

    def _note_touches(self) -> None:
        with self._news:
            touched, self._touched = self._touched, {}
        self._touched_s = time.monotonic()
        self._stock.touch(touched)
        self._stock.look_if_due()

    def _switch_off(self, error: OSError) -> None:
        """No writing for a while; what was queued gives its memory back. One warning a reason."""
        self._must_open = True
        with self._news:
            self._fault = fault_text(error, self.folder)
            self._retry_at_s = time.monotonic() + self._retry_s
            is_new = error.errno not in self._warned
            self._warned.add(error.errno)
        if is_new:
            logger.warning(
                "prompt cache on disk: nothing is written for now: %s (answers go on without it; "
                "tried again every %.0f s)",
                self._fault,
                self._retry_s,
            )
        self._drop_queue()

    def _switch_on(self) -> None:
        with self._news:
            self._fault = None
        logger.info("prompt cache on disk: %s can be written again", self.folder)

    def _drop_queue(self) -> None:
        with self._news:
            callbacks = [writing.on_done for writing in self._writings.values()]
            self._num_skipped += len(callbacks)
            self._writings.clear()
            self._queued_bytes = 0
        for on_done in callbacks:
            _tell(on_done)

    def _give_up_the_rest(self) -> None:
        if self._listing is not None:
            self._listing.close()  # tells what it has found
        self._drop_queue()
        with self._news:
            readings, self._readings = self._readings, deque()
            listeners, self._listeners = self._listeners, deque()
        for reading in readings:
            _tell(reading.on_done, [None] * len(reading.keys))
        for _, on_heads in listeners:
            _tell(on_heads, [])


def _tell(callback: Callable[..., None] | None, *values: object) -> None:
    """Calls back; what that raises is not the disk's fault."""
    try:
        if callback is not None:
            callback(*values)
    except Exception:
        logger.exception("prompt cache: a callback failed; going on")
