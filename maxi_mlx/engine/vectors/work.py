"""One model's requests for vectors or scores on the device thread, batch by batch.

A slice is a batch, or some layers of one that takes longer. Requests take turns: the first in line
sets a batch's length, others fill what it leaves free, and it goes to the back. Knows nothing of
texts or clients.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.device_work import WorkFigures
from maxi_mlx.engine.mailbox import FaultNews, Mailbox, Outbox, RowsNews
from maxi_mlx.engine.vectors.batches import BatchSize, pick
from maxi_mlx.engine.vectors.job import VectorJob
from maxi_mlx.engine.vectors.layers import Pauses
from maxi_mlx.engine.vectors.models import VectorModel
from maxi_mlx.engine.vectors.tokens import TokenRow

logger = logging.getLogger(__name__)

# Of the free memory, what one batch may take.
_MEMORY_PART = 0.5
# Freed buffers go back to the system after so many tokens.
_TOKENS_PER_CLEAR = 65_536
# Of a slice: what is planned for. Every other batch takes longer than planned, and who reads along
# notices that sooner than who indexes notices a smaller batch.
_PLANNED_PART = 0.8
# Of a slice: batches that are likely to take longer are computed layer by layer.
_SHORT_PART = 0.5


@dataclass(slots=True, eq=False)
class _Batch:
    """What is computed together: places of requests' inputs, and their rows. ``steps`` are of one
    that may take longer than a slice; ``seconds`` is what it took so far."""

    taken: Sequence[tuple[VectorJob, Sequence[int]]]
    rows: Sequence[TokenRow]
    steps: Pauses[NDArray[np.float32]]
    seconds: float = 0.0

    @property
    def longest(self) -> int:
        return max(len(row.ids) for row in self.rows)

    def go_on(self, ends_at_s: float) -> NDArray[np.float32] | None:
        """Computes a layer, and more while they are likely to be done in time; the numbers, once
        all are there."""
        while True:
            began_s = time.perf_counter()
            try:
                next(self.steps)
            except StopIteration as end:
                numbers: NDArray[np.float32] = end.value
                return numbers
            finally:
                now_s = time.perf_counter()
                self.seconds += now_s - began_s
            if now_s + (now_s - began_s) > ends_at_s:
                return None


class VectorWork:
    """Owns the requests of one model."""

    def __init__(
        self,
        model: VectorModel,
        entry: ModelEntry,
        size: BatchSize,
        *,
        memory_left_bytes: Callable[[], int],
    ) -> None:
        self._model: VectorModel | None = model
        self._entry = entry
        self.size = size
        self._memory_left_bytes = memory_left_bytes
        self._jobs: list[VectorJob] = []
        self._batch: _Batch | None = None  # that is under way
        self._fault: str | None = None
        self._num_tokens = 0
        self._num_tokens_since_clear = 0

    @property
    def entry(self) -> ModelEntry:
        return self._entry

    @property
    def has_work(self) -> bool:
        return bool(self._jobs)

    @property
    def num_decoding(self) -> int:
        return 0

    @property
    def num_wanting(self) -> int:
        """All requests together want one slice, whose parts they are: many of them take nothing
        from the answers' share."""
        return min(len(self._jobs), 1)

    @property
    def worthwhile_slice_s(self) -> float:
        return 0.0

    @property
    def is_waiting_for_disk(self) -> bool:
        return False

    @property
    def promised_bytes(self) -> int:
        """Of a batch whose layers are computed apart: others' rows come in between."""
        batch = self._batch
        return self.size.memory_bytes(len(batch.rows), batch.longest) if batch is not None else 0

    @property
    def newest_s(self) -> float | None:
        return max((job.arrived_s for job in self._jobs), default=None)

    def fail_newest(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        newest = max(self._jobs, key=lambda job: job.arrived_s)
        self.cancel(newest.mailbox)
        outbox.append((newest.mailbox, FaultNews(make_error())))

    def figures(self) -> WorkFigures:
        return WorkFigures(
            num_running=len(self._jobs),
            num_waiting=0,
            fault=self._fault,
            num_prefill_tokens=self._num_tokens,
        )

    def close(self) -> None:
        self._model = None
        self._batch = None

    def submit(self, job: VectorJob) -> None:
        self._jobs.append(job)

    def cancel(self, mailbox: Mailbox) -> None:
        self._jobs = [job for job in self._jobs if job.mailbox is not mailbox]
        batch = self._batch
        if batch is not None and not any(job in self._jobs for job, _ in batch.taken):
            self._batch = None

    def prepare(self, outbox: Outbox) -> None:
        """Nothing: who leaves is taken out when it says so."""

    def decode(self, outbox: Outbox) -> None:
        """Nothing: no answer is being written."""

    def settle(self, outbox: Outbox) -> None:
        """Nothing is under way between slices."""

    def read(self, slice_s: float, outbox: Outbox) -> None:
        """One batch of about so many seconds, or a part of one; a layer of one input at the
        least."""
        slice_s *= _PLANNED_PART
        ends_at_s = time.perf_counter() + slice_s
        if self._batch is None:
            self._batch = self._next_batch(slice_s)
        batch = self._batch
        try:
            numbers = batch.go_on(ends_at_s)
        except Exception as error:
            self._batch = None
            self._failed(batch, error, outbox)
            return
        if numbers is None:
            return
        self._batch = None
        self._note(batch, numbers)
        for job in self._among(batch):
            if job.num_done == len(job.rows):
                self._jobs.remove(job)
                outbox.append((job.mailbox, RowsNews(np.stack([*map(_done, job.results)]))))
        if not self._jobs:
            self._clear()

    def _next_batch(self, slice_s: float) -> _Batch:
        assert self._model is not None
        jobs = self._sharing()
        most_bytes = int(max(self._memory_left_bytes(), 0) * _MEMORY_PART)
        fits = self.size.fits(slice_s, most_bytes=most_bytes)
        left = [job.left for job in jobs]
        picked = pick(left, fits, most_padding=self.size.fixed_tokens)
        taken = [(job, places) for job, places in zip(jobs, picked, strict=True) if places]
        self._jobs.remove(jobs[0])
        self._jobs.append(jobs[0])
        rows = [job.rows[place] for job, places in taken for place in places]
        longest = max(len(row.ids) for row in rows)
        # A pause is a moment in which the device has nothing to do: short ones need none.
        is_short = self.size.seconds(len(rows), longest) < slice_s * _SHORT_PART
        steps = _at_once(self._model, rows) if is_short else self._model.steps(rows)
        return _Batch(taken, rows, steps)

    def _among(self, batch: _Batch) -> list[VectorJob]:
        """The batch's requests, without those whose clients have left."""
        return [job for job, _ in batch.taken if job in self._jobs]

    def _sharing(self) -> list[VectorJob]:
        first = self._jobs[0]
        if first.is_suspect:
            return [first]
        return [job for job in self._jobs if not job.is_suspect]

    def _note(self, batch: _Batch, numbers: NDArray[np.float32]) -> None:
        self.size.learn(len(batch.rows), batch.longest, batch.seconds)
        places = [(job, place) for job, places in batch.taken for place in places]
        for (job, place), row in zip(places, numbers, strict=True):
            job.results[place] = row
            job.num_done += 1
        self._num_tokens += sum(len(row.ids) for row in batch.rows)
        self._num_tokens_since_clear += len(batch.rows) * batch.longest
        if self._num_tokens_since_clear >= _TOKENS_PER_CLEAR:
            self._clear()

    def _clear(self) -> None:
        self._num_tokens_since_clear = 0
        mx.clear_cache()

    # -- faults ------------------------------------------------------------------------------

    def _failed(self, batch: _Batch, error: Exception, outbox: Outbox) -> None:
        """A request that was alone is at fault, and ends; in company each goes on by itself."""
        logger.error("%s: a batch failed", self._entry.id, exc_info=error)
        self._fault = f"{type(error).__name__}: {error}"
        message = f"The model failed on these inputs: {error}"
        for job in self._among(batch):
            if len(batch.taken) == 1:
                self._jobs.remove(job)
                outbox.append((job.mailbox, FaultNews(EngineFailed(message))))
            else:
                job.is_suspect = True
                job.take_up()

    def guarded(self, work: Callable[[Outbox], None], outbox: Outbox) -> None:
        """Does a part of a turn. Whatever escapes it ends this model's requests, and no more."""
        try:
            work(outbox)
        except BaseException as error:  # a panic of a native library is no Exception
            logger.exception("%s: the engine failed", self._entry.id)
            self._fault = f"{type(error).__name__}: {error}"
            message = f"The engine failed: {error}"
            self.fail_all(lambda: EngineFailed(message), outbox)

    def fail_all(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        for job in self._jobs:
            outbox.append((job.mailbox, FaultNews(make_error())))
        self._jobs.clear()
        self._batch = None


def _at_once(model: VectorModel, rows: Sequence[TokenRow]) -> Pauses[NDArray[np.float32]]:
    yield from ()
    return model.compute(rows)


def _done(row: NDArray[np.float32] | None) -> NDArray[np.float32]:
    assert row is not None, "a request is done when all its rows are"
    return row
