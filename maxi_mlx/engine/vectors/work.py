"""One model's requests for vectors or scores on the device thread, batch by batch.

A slice is a batch. Requests take turns: the first in line sets a batch's length, others fill what
it leaves free, and it goes to the back. Knows nothing of texts or clients.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.device_work import WorkFigures
from maxi_mlx.engine.mailbox import FaultNews, Mailbox, Outbox, RowsNews
from maxi_mlx.engine.vectors.batches import BatchSize, pick
from maxi_mlx.engine.vectors.job import VectorJob
from maxi_mlx.engine.vectors.models import VectorModel

logger = logging.getLogger(__name__)

# Of the free memory, what one batch may take.
_MEMORY_PART = 0.5
# Freed buffers go back to the system after so many tokens.
_TOKENS_PER_CLEAR = 65_536


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
    def is_waiting_for_disk(self) -> bool:
        return False

    def figures(self) -> WorkFigures:
        return WorkFigures(
            num_running=len(self._jobs),
            num_waiting=0,
            fault=self._fault,
            num_prefill_tokens=self._num_tokens,
        )

    def close(self) -> None:
        self._model = None

    def submit(self, job: VectorJob) -> None:
        self._jobs.append(job)

    def cancel(self, mailbox: Mailbox) -> None:
        self._jobs = [job for job in self._jobs if job.mailbox is not mailbox]

    def prepare(self, outbox: Outbox) -> None:
        """Nothing: who leaves is taken out when it says so."""

    def decode(self, outbox: Outbox) -> None:
        """Nothing: no answer is being written."""

    def settle(self, outbox: Outbox) -> None:
        """Nothing is under way between slices."""

    def read(self, slice_s: float, outbox: Outbox) -> None:
        """One batch of about so many seconds, and of one input at the least."""
        jobs = self._sharing()
        most_bytes = int(max(self._memory_left_bytes(), 0) * _MEMORY_PART)
        fits = self.size.fits(slice_s, most_bytes=most_bytes)
        taken = [
            (job, places)
            for job, places in zip(jobs, pick([job.left for job in jobs], fits), strict=True)
            if places
        ]
        self._jobs.remove(jobs[0])
        self._jobs.append(jobs[0])
        try:
            self._compute(taken)
        except Exception as error:
            self._failed(taken, error, outbox)
            return
        for job in [job for job, _ in taken if job.num_done == len(job.rows)]:
            self._jobs.remove(job)
            outbox.append((job.mailbox, RowsNews(np.stack([*map(_done, job.results)]))))
        if not self._jobs:
            self._clear()

    def _sharing(self) -> list[VectorJob]:
        first = self._jobs[0]
        if first.is_suspect:
            return [first]
        return [job for job in self._jobs if not job.is_suspect]

    def _compute(self, taken: Sequence[tuple[VectorJob, Sequence[int]]]) -> None:
        assert self._model is not None
        inputs = [(job, place) for job, places in taken for place in places]
        rows = [job.rows[place] for job, place in inputs]
        started = time.perf_counter()
        numbers = self._model.compute(rows)
        longest = max(len(row.ids) for row in rows)
        self.size.learn(len(rows), longest, time.perf_counter() - started)
        for (job, place), row in zip(inputs, numbers, strict=True):
            job.results[place] = row
            job.num_done += 1
        self._num_tokens += sum(len(row.ids) for row in rows)
        self._num_tokens_since_clear += len(rows) * longest
        if self._num_tokens_since_clear >= _TOKENS_PER_CLEAR:
            self._clear()

    def _clear(self) -> None:
        self._num_tokens_since_clear = 0
        mx.clear_cache()

    # -- faults ------------------------------------------------------------------------------

    def _failed(
        self,
        taken: Sequence[tuple[VectorJob, Sequence[int]]],
        error: Exception,
        outbox: Outbox,
    ) -> None:
        """A request that was alone is at fault, and ends; in company each goes on by itself."""
        logger.error("%s: a batch failed", self._entry.id, exc_info=error)
        self._fault = f"{type(error).__name__}: {error}"
        message = f"The model failed on these inputs: {error}"
        for job, _ in taken:
            if len(taken) == 1:
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


def _done(row: NDArray[np.float32] | None) -> NDArray[np.float32]:
    assert row is not None, "a request is done when all its rows are"
    return row
