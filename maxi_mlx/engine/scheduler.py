"""One model's work: prompts that wait, prompts being read, rows that decode.

    waiting ─► reading (slices, short prompts together) ─► decoding (all together) ─► done
       ▲                                                       │
       └────────── no memory for all, or a step failed ────────┘  read anew, then goes on

Lives on the device thread; knows nothing of text, clients or other models (`rota.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import SchedulerSettings
from maxi_mlx.engine.batch import DecodeBatch, Newcomer, StepToken
from maxi_mlx.engine.batch_cache import CachesLost
from maxi_mlx.engine.company import pair_to_unite, starting
from maxi_mlx.engine.device_work import WorkFigures
from maxi_mlx.engine.fair_queue import FairQueue
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import Mailbox, Outbox
from maxi_mlx.engine.news import post_faults, post_progress, post_token
from maxi_mlx.engine.prefixes import Prefixes
from maxi_mlx.engine.reading import Reading
from maxi_mlx.engine.row import PromptJob, Row, resume
from maxi_mlx.engine.row_memory import RowMemory

logger = logging.getLogger(__name__)

_STEPS_PER_CHECK = 64
# Freed buffers go back to the system after so many steps.
_STEPS_PER_CLEAR = 512
_SMALL_PART = 1 / 8


class Scheduler:
    """Owns the rows of one model. ``fault`` is the last failure that was not a request's own."""

    def __init__(
        self,
        model: LanguageModel,
        settings: SchedulerSettings,
        *,
        memory_left_bytes: Callable[[], int],
        prefixes: Prefixes,
        may_overrun: Callable[[ModelEntry], bool] = lambda _: True,
    ) -> None:
        """``may_overrun``: nobody else's end would give memory back."""
        self.model = model
        self.prefixes = prefixes
        self._settings = settings
        self._memory = RowMemory(model, prefixes, memory_left_bytes)
        self._may_overrun = may_overrun
        self._waiting = FairQueue()
        self.reading = Reading(model, settings, prefixes)
        self._batches: list[DecodeBatch] = []
        self._num_steps = 0
        self._is_start_due = False  # of prompts that were read in the slice before
        self.fault: str | None = None

    @property
    def entry(self) -> ModelEntry:
        return self.model.entry

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self.reading.jobs or self._batches)

    @property
    def num_decoding(self) -> int:
        return sum(map(len, self._batches))

    @property
    def num_wanting(self) -> int:
        return self.reading.num_wanting

    @property
    def worthwhile_slice_s(self) -> float:
        return self.reading.worthwhile_slice_s

    @property
    def is_waiting_for_disk(self) -> bool:
        return bool(self.prefixes.num_restoring)

    @property
    def num_waiting(self) -> int:
        return self._waiting.num_rows + self.prefixes.num_restoring

    @property
    def num_running(self) -> int:
        return self.num_decoding + sum(len(job.rows) for job in self.reading.jobs)

    @property
    def kv_cache_bytes(self) -> int:
        return self.reading.cache_bytes + sum(batch.cache_bytes for batch in self._batches)

    @property
    def promised_bytes(self) -> int:
        """What its rows may still grow by."""
        if not self.num_running:
            self._memory.needed_bytes = 0
        return max(self._memory.needed_bytes - self.kv_cache_bytes, 0)

    def figures(self) -> WorkFigures:
        return WorkFigures(
            num_running=self.num_running,
            num_waiting=self.num_waiting,
            fault=self.fault,
            kv_cache_bytes=self.kv_cache_bytes,
            num_prefill_tokens=self.reading.num_prefill_tokens,
            namespace=self.prefixes.store.namespace,
            prefixes=self.prefixes.store.stats(),
        )

    def close(self) -> None:
        self.prefixes.close()

    def submit(self, job: PromptJob) -> None:
        self._waiting.put(job)

    def cancel(self, mailbox: Mailbox) -> None:
        """Forgets a request's prompts; its decoding rows leave at the next step."""
        self._waiting.drop(mailbox)
        self.prefixes.forget(lambda job: job.mailbox is mailbox)
        self.reading.cancel(mailbox)

    def guarded(self, work: Callable[[Outbox], None], outbox: Outbox) -> None:
        """Does a part of a turn. Whatever escapes it ends this model's requests, and no more."""
        try:
            work(outbox)
        except BaseException as error:  # a panic of a native library is no Exception
            logger.exception("%s: the engine failed", self.model.entry.id)
            self.fault = f"{type(error).__name__}: {error}"
            message = f"The engine failed: {error}"
            self.fail_all(lambda: EngineFailed(message), outbox)

    def fail_all(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        """Ends every request of this model, the waiting ones too."""
        jobs = [*self._waiting.clear(), *self.prefixes.forget(lambda _: True)]
        rows = [row for job in jobs for row in job.rows] + self._rows()
        self.reading.clear()
        self._batches.clear()
        post_faults(rows, make_error, outbox)

    @property
    def newest_s(self) -> float | None:
        return max((row.arrived_s for row in self._rows()), default=None)

    def fail_newest(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        newest = max(self._rows(), key=lambda row: row.arrived_s)
        self._waiting.drop(newest.mailbox)
        self.reading.drop(newest.mailbox)
        rows = {row for row in self._rows() if row.mailbox is newest.mailbox}
        self._stop_rows(rows, outbox)
        post_faults([newest], make_error, outbox)

    # -- admission ---------------------------------------------------------------------------

    def prepare(self, outbox: Outbox) -> None:
        """Drops who left and lets in who waits, while rows and memory allow."""
        for batch in list(self._batches):
            self._leave(batch, {row for row in batch.rows if row.cancelled}, outbox)
        for job in self.prefixes.overdue():
            self._waiting.put_back(job)
        while self._waiting:
            job = self._waiting.first()
            job.rows = [row for row in job.rows if not row.cancelled]
            if job.rows and not self._has_room(job):
                return
            self._waiting.take()
            if not job.rows or self.prefixes.begin_restore(
                job, on_done=partial(self._waiting.put_back, job)
            ):
                continue
            self.prefixes.fetch(job, self.model.new_cache)
            self.reading.add(job)
            post_progress(job, job.num_processed, outbox)

    def _has_room(self, job: PromptJob) -> bool:
        num_running = self.num_running
        if not num_running:
            # It was found to fit when it came, so that it goes once it has the device to itself.
            return self._fits(newcomers=job.rows) or self._may_overrun(self.entry)
        num_rows = num_running + self.prefixes.num_restoring + len(job.rows)
        if num_rows > self._settings.max_running_rows:
            return False
        return self._fits(newcomers=job.rows)

    def _fits(self, *, newcomers: list[Row]) -> bool:
        read = [*newcomers, *(job.rows[0] for job in self.reading.jobs)]
        return self._memory.fits(
            self._rows(),
            newcomers,
            held_bytes=self.kv_cache_bytes,
            prompt_tokens=max((len(row.token_ids) for row in read), default=0),
        )

    def _rows(self) -> list[Row]:
        """Those that hold memory."""
        rows = [row for batch in self._batches for row in batch.rows]
        return rows + [row for job in self.reading.jobs for row in job.rows]

    # -- reading prompts ---------------------------------------------------------------------

    def read(self, slice_s: float, outbox: Outbox) -> None:
        """Reads a slice of prompts; those that are read to their end start their rows."""
        done = self.reading.done() if self._is_start_due else []
        if done:  # else they have left meanwhile
            self._start(done, outbox)
            return
        end = self.reading.read(slice_s, self._memory.left_bytes() - self.promised_bytes)
        for job in end.read:
            if job.num_remaining:
                post_progress(job, job.num_processed, outbox)
        self._reading_failed(end.failed, outbox)
        done = self.reading.done()
        self._is_start_due = end.depth > 0 and bool(done) and self._is_join_long
        if not self._is_start_due:
            self._start(done, outbox)

    @property
    def _is_join_long(self) -> bool:
        """Whether joining others is to have a turn of its own, since the caches that are copied
        then are no small part of what a step reads."""
        weight_bytes = self.model.entry.all_weight_bytes
        return bool(self._batches) and self.kv_cache_bytes > weight_bytes * _SMALL_PART

    def _start(self, done: list[PromptJob], outbox: Outbox) -> None:
        """Has the rows of prompts that were read decode."""
        self._is_start_due = False
        # Together they failed before: whose fault it was shows as each starts by itself.
        are_apart = any(job.must_read_alone for job in done)
        for jobs in [[job] for job in done] if are_apart else [done]:
            self._start_together(jobs, outbox)

    def _start_together(self, done: list[PromptJob], outbox: Outbox) -> None:
        for job in done:
            # The last token is computed with the first step; for a client it is read.
            post_progress(job, len(job.token_ids), outbox)
            self.prefixes.keep_read(job)
        try:
            for batch, joining in starting(done, self._batches, self.model):
                self._join(batch, joining)
        except Exception as error:
            self._stop_rows({row for job in done for row in job.rows}, outbox)
            self._reading_failed(self.reading.failed(done, error).failed, outbox)
            return
        for job in done:
            self.reading.remove(job)

    def _reading_failed(self, failed: list[tuple[PromptJob, Exception]], outbox: Outbox) -> None:
        for job, fault in failed:
            if self._memory.spares(job.rows, fault):
                self._waiting.put_back(job)
                continue
            logger.error("%s: reading its prompt failed", job.rows[0].request_id, exc_info=fault)
            message = f"The model failed on this prompt: {fault}"
            post_faults(job.rows, partial(EngineFailed, message), outbox)

    def _join(self, batch: DecodeBatch, newcomers: list[Newcomer]) -> None:
        try:
            batch.join(newcomers, vocabulary_size=self.model.vocabulary_size)
        except CachesLost as lost:
            self._read_anew(batch, apart=True)
            raise (lost.__cause__ or lost) from None
        if batch not in self._batches:
            self._batches.append(batch)

    def _stop_rows(self, rows: set[Row], outbox: Outbox) -> None:
        """Takes them out, and keeps nothing of theirs."""
        for batch in list(self._batches):
            self._leave(batch, rows.intersection(batch.rows), outbox, keeps=False)

    # -- decoding ----------------------------------------------------------------------------

    def decode(self, outbox: Outbox) -> None:
        """One step of every row."""
        if self._num_steps % _STEPS_PER_CHECK == 0:
            self._keep_within_memory(outbox)
            for batch in self._batches:
                batch.tidy()
            self._reunite(outbox)
        self._advance(self._batches, DecodeBatch.step, outbox)
        self._num_steps += 1
        if self._num_steps % _STEPS_PER_CLEAR == 0:
            mx.clear_cache()

    def settle(self, outbox: Outbox) -> None:
        """Waits for the steps under way, and hands their tokens out before something else."""
        self._advance(self._batches, DecodeBatch.settle, outbox)

    def _advance(
        self,
        batches: Sequence[DecodeBatch],
        advance: Callable[[DecodeBatch], list[StepToken]],
        outbox: Outbox,
    ) -> None:
        for batch in list(batches):
            try:
                tokens = advance(batch)
            except Exception as error:
                self._step_failed(batch, error, outbox)
                continue
            leaving = {token.row for token in tokens if self._take_token(token, outbox)}
            self._leave(batch, leaving, outbox)

    def _reunite(self, outbox: Outbox) -> None:
        """Joins two batches that were kept apart by their rows' lengths, once they would fit."""
        pair = pair_to_unite(self._batches, self.model)
        if pair is None:
            return
        first, second = pair
        self._advance(pair, DecodeBatch.settle, outbox)
        if first in self._batches and second in self._batches:
            self._absorb(first, second)

    def _absorb(self, first: DecodeBatch, second: DecodeBatch) -> None:
        try:
            self._join(first, second.dissolve())
        except Exception as error:
            logger.error("%d answers could not join %d", len(second), len(first), exc_info=error)
            self.fault = f"{type(error).__name__}: {error}"
            self._read_anew(second, apart=True)
        else:
            self._batches.remove(second)

    def _read_anew(self, batch: DecodeBatch, *, apart: bool) -> None:
        """Has a batch's rows start again from where their texts are; ``apart``, each by itself,
        where what failed them together may do so again."""
        if batch in self._batches:
            self._batches.remove(batch)
        for row in reversed([row for row in batch.rows if not row.cancelled]):
            row.is_suspect |= apart
            self._waiting.put_back(resume(row))

    def _keep_within_memory(self, outbox: Outbox) -> None:
        """Puts the newest rows back while the older ones would outgrow the memory. The last one
        goes on in any case."""
        while not self._fits(newcomers=[]) and self.num_running > 1:
            batch = self._batches[-1]
            row = batch.rows[-1]
            logger.warning("%s: no memory to go on beside others; it waits", row.request_id)
            self._leave(batch, {row}, outbox, keeps=False)
            self._waiting.put_back(resume(row))
            if not self._batches:
                return

    def _take_token(self, token: StepToken, outbox: Outbox) -> bool:
        """Says whether the token's row is done, and be it that taking it failed."""
        try:
            return post_token(token, outbox)
        except MaxiError as error:
            token.row.uses_cache = False  # its cache is a token ahead of its text
            post_faults([token.row], partial(type(error), error.message, param=error.param), outbox)
            return True
        except Exception as error:
            token.row.uses_cache = False
            logger.exception("%s: a token could not be taken", token.row.request_id)
            self.fault = f"{type(error).__name__}: {error}"
            message = f"The engine failed: {error}"
            post_faults([token.row], lambda: EngineFailed(message), outbox)
            return True

    def _leave(
        self, batch: DecodeBatch, leaving: set[Row], outbox: Outbox, *, keeps: bool = True
    ) -> None:
        for row in leaving if keeps else ():
            self.prefixes.keep_written(
                row, batch.num_cached_tokens(row), partial(batch.cache_of, row)
            )
        if not leaving:
            return
        try:
            batch.leave(leaving)
        except Exception as error:
            self._step_failed(batch, error, outbox)
            return
        if not batch.rows:
            self._batches.remove(batch)

    def _step_failed(self, batch: DecodeBatch, error: Exception, outbox: Outbox) -> None:
        """A batch that failed is lost. Rows that were in company are read anew and go on by
        themselves; one that was alone is at fault, and ends."""
        logger.error("a step of %d answers failed", len(batch), exc_info=error)
        self.fault = f"{type(error).__name__}: {error}"
        rows = [row for row in batch.rows if not row.cancelled]
        is_spared = self._memory.spares(rows, error)
        if is_spared or len(batch) > 1:
            self._read_anew(batch, apart=not is_spared)
            return
        self._batches.remove(batch)
        message = f"The model failed while answering: {error}"
        post_faults(rows, lambda: EngineFailed(message), outbox)
