"""A model on its way into memory, in pieces so short that others' answers go on between them.

A loader is a generator on the device thread. It yields None where others may have a turn, and a
future where the device has nothing to do until a worker thread is done, which reads files and
makes tokenizers. Knows nothing of how a model is made of its files, and imports no MLX before that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.device import is_allocation_failure
from maxi_mlx.engine.device_work import DeviceWork, WorkFigures
from maxi_mlx.engine.mailbox import Outbox

if TYPE_CHECKING:
    import mlx.core as mx

logger = logging.getLogger(__name__)

T = TypeVar("T")

Steps = Generator[Future[Any] | None, None, T]

# What is computed in one piece: some milliseconds' worth. A tensor is never cut.
_PIECE_BYTES = 8 * 2**20


class Handle(Protocol):
    """A loaded model that can be used while the pool lends it."""

    @property
    def work(self) -> DeviceWork: ...


H = TypeVar("H", bound=Handle)


@dataclass(slots=True, eq=False)
class Loading:
    """What a loader has beside the model's folder. ``base`` is the loaded model whose weights it is
    to share. ``reserved_bytes`` is what the model may still take; ``free`` gives up so much of what
    others have stored. Without ``threads`` all is done on the caller's own thread.
    """

    entry: ModelEntry
    base: Handle | None = None
    threads: Executor | None = None
    reserved_bytes: int = 0
    free: Callable[[int], None] = lambda _: None

    def begin(self, function: Callable[[], T]) -> Future[T]:
        """Starts something that needs no MLX."""
        if self.threads is not None:
            return self.threads.submit(function)
        future: Future[T] = Future()
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        return future

    def elsewhere(self, function: Callable[[], T]) -> Steps[T]:
        """Does something that needs no MLX, while the device does something else."""
        return (yield from result_of(self.begin(function)))

    def evaluate(self, arrays: Iterable[mx.array]) -> Steps[None]:
        """Brings arrays into memory, piece by piece."""
        for piece in pieces(arrays, lambda array: array.nbytes):
            self.bring(piece)
            yield None

    def bring(self, piece: Sequence[mx.array]) -> None:
        import mlx.core as mx

        num_bytes = sum(array.nbytes for array in piece)
        try:
            mx.eval(piece)
        except Exception as error:
            if not is_allocation_failure(error):
                raise
            # What is stored for later goes first, and more of it than this piece, as others follow.
            self.free(max(self.reserved_bytes, num_bytes))
            mx.eval(piece)
        self.reserved_bytes = max(self.reserved_bytes - num_bytes, 0)


def pieces(items: Iterable[T], num_bytes: Callable[[T], int]) -> Iterator[list[T]]:
    """Items in groups as large as one piece may be."""
    piece: list[T] = []
    left_bytes = _PIECE_BYTES
    for item in items:
        piece.append(item)
        left_bytes -= num_bytes(item)
        if left_bytes <= 0:
            yield piece
            piece, left_bytes = [], _PIECE_BYTES
    if piece:
        yield piece


def result_of(future: Future[T]) -> Steps[T]:
    """Waits for a worker thread; for as long the device is others'."""
    if not future.done():
        yield future
    return future.result()


def finish(steps: Steps[T]) -> T:
    """Takes all steps at once: for whoever has the device to itself."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
        if pause is not None:
            pause.exception()


class LoadingWork(Generic[H]):
    """One load's share of the device: its steps are slices, as those of a prompt are.

    ``handle`` is set once the device thread has taken the model up.
    """

    def __init__(
        self,
        loading: Loading,
        steps: Steps[H],
        *,
        wake: Callable[[Callable[[], None]], None],
    ) -> None:
        """``wake`` has the device thread do something, from any thread."""
        self.handle: Future[H] = Future()
        self.loading = loading
        self.loaded: H | None = None
        self.failure: MaxiError | None = None
        self._wake = wake
        self._steps: Steps[H] | None = steps
        self._is_waiting = False

    @property
    def entry(self) -> ModelEntry:
        return self.loading.entry

    @property
    def is_done(self) -> bool:
        return self._steps is None

    @property
    def has_work(self) -> bool:
        return not (self.is_done or self._is_waiting)

    @property
    def num_decoding(self) -> int:
        return 0

    @property
    def num_wanting(self) -> int:
        return int(self.has_work)

    @property
    def promised_bytes(self) -> int:
        return self.loading.reserved_bytes

    @property
    def newest_s(self) -> float | None:
        return None

    @property
    def worthwhile_slice_s(self) -> float:
        return 0.0

    @property
    def is_waiting_for_disk(self) -> bool:
        return False

    def prepare(self, outbox: Outbox) -> None:
        """There is nobody to let in."""

    def decode(self, outbox: Outbox) -> None:
        """There are no steps for answers."""

    def settle(self, outbox: Outbox) -> None:
        """Nothing is under way between slices."""

    def read(self, slice_s: float, outbox: Outbox) -> None:  # noqa: ARG002
        """Goes on with the load, for one piece at least; it has no news for a request."""
        ends_at_s = time.perf_counter() + slice_s
        while self._steps is not None:
            try:
                pause = next(self._steps)
            except StopIteration as end:
                self.loaded, self._steps = end.value, None
                return
            if pause is not None:
                self._is_waiting = True
                pause.add_done_callback(lambda _: self._wake(self._go_on))
                return
            if time.perf_counter() >= ends_at_s:
                return

    def guarded(self, work: Callable[[Outbox], None], outbox: Outbox) -> None:
        try:
            work(outbox)
        except BaseException as error:  # a panic of a native library is no Exception
            logger.debug("loading %s failed", self.entry.id, exc_info=True)
            self._fail(
                error.with_traceback(None)
                if isinstance(error, MaxiError)
                else EngineFailed(str(error) or type(error).__name__)
            )

    def fail_all(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:  # noqa: ARG002
        self._fail(make_error())

    def fail_newest(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        """No request runs here."""

    def figures(self) -> WorkFigures:
        return WorkFigures(num_running=0, num_waiting=0, fault=None)

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def tell(self) -> None:
        """Tells whoever waits what has become of it, and forgets it."""
        loaded, self.loaded = self.loaded, None
        if not self.handle.set_running_or_notify_cancel():
            return
        if loaded is not None:
            self.handle.set_result(loaded)
        else:
            self.handle.set_exception(self.failure or EngineFailed("the load was given up"))

    def _go_on(self) -> None:
        self._is_waiting = False

    def _fail(self, error: MaxiError) -> None:
        # Without its frames, which hold the weights that are there already.
        error.__cause__ = error.__context__ = None
        self.failure = error
        self.close()
