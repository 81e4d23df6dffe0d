"""Decides what the device does next for one model: read a slice of a prompt, or decode.

    waiting ─► reading (one slice at a time, in turn) ─► decoding (all together) ─► done

Running answers keep a set share of the device while prompts are read, and no slice holds it for
longer than the strategy says. Lives on the device thread; knows nothing of text or clients.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.core.settings import SchedulerSettings
from maxi_mlx.engine.batch import DecodeBatch, Newcomer, StepToken
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import FaultNews, Outbox, PrefillNews, TokenEnd, TokenNews
from maxi_mlx.engine.prefill import copy_cache, read_prompt, read_prompts_together
from maxi_mlx.engine.row import PromptJob, Row

logger = logging.getLogger(__name__)

# With nobody decoding, a slice may be longer; it still ends soon enough to notice a client that
# left, or a shorter prompt that came.
_IDLE_SLICE_S = 0.5
_FIRST_SLICE_TOKENS = 32  # until the model's speed is known
_SMALLEST_SLICE_TOKENS = 8
# Slices for others after which a prompt's turn comes, however long it is.
_MAX_PASSED_OVER = 3
# Steps between two returns of MLX's buffer pool to the system.
_STEPS_PER_CLEAR = 512


class Scheduler:
    """The queue, the prompts being read and the running rows of one model."""

    def __init__(
        self,
        model: LanguageModel,
        settings: SchedulerSettings,
        *,
        memory_budget_bytes: Callable[[], int],
    ) -> None:
        self.model = model
        self._settings = settings
        self._memory_budget_bytes = memory_budget_bytes
        self._waiting: deque[PromptJob] = deque()
        self._reading: deque[PromptJob] = deque()
        self._batches: list[DecodeBatch] = []
        self._lengths: dict[Row, int] = {}  # tokens in the cache of each running row
        self._slice_tokens_per_s: float | None = None
        self._decode_owed_s = 0.0
        self._num_steps = 0
        self.fault: str | None = None

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._reading or self._batches)

    @property
    def num_waiting(self) -> int:
        return sum(len(job.rows) for job in self._waiting)

    @property
    def num_running(self) -> int:
        return sum(map(len, self._batches)) + sum(len(job.rows) for job in self._reading)

    @property
    def kv_cache_bytes(self) -> int:
        reading = sum(
            int(entry.nbytes) for job in self._reading for entry in job.cache if not entry.empty()
        )
        return reading + sum(batch.cache_bytes for batch in self._batches)

    def submit(self, job: PromptJob) -> None:
        self._waiting.append(job)

    def step(self, outbox: Outbox) -> None:
        """One turn: at most one decode step for all rows, and at most one slice of a prompt."""
        self._drop_cancelled()
        self._admit(outbox)
        if self._batches:
            started = time.perf_counter()
            self._decode(outbox)
            self._decode_owed_s -= time.perf_counter() - started
        else:
            self._decode_owed_s = 0.0
        if self._reading and self._decode_owed_s <= 0:
            slice_s = self._read_slice(outbox)
            share = self._settings.decode_share
            self._decode_owed_s = slice_s * share / (1 - share)

    def fail_all(self, error: MaxiError, outbox: Outbox) -> None:
        """Ends every request of this model, the waiting ones too."""
        jobs = [*self._waiting, *self._reading]
        rows = [row for job in jobs for row in job.rows]
        rows += [row for batch in self._batches for row in batch.rows]
        self._waiting.clear()
        self._reading.clear()
        self._batches.clear()
        self._lengths.clear()
        self._fail(rows, error, outbox)

    # -- admission ---------------------------------------------------------------------------

    def _drop_cancelled(self) -> None:
        for queue in (self._waiting, self._reading):
            for job in list(queue):
                job.rows = [row for row in job.rows if not row.cancelled]
                if not job.rows:
                    queue.remove(job)
        for batch in list(self._batches):
            self._leave(batch, {row for row in batch.rows if row.cancelled})

    def _admit(self, outbox: Outbox) -> None:
        """Lets waiting prompts in, first come first served, while rows and memory allow."""
        while self._waiting:
            job = self._waiting[0]
            num_running = self.num_running
            if num_running and not self._has_room(job, num_running):
                return
            self._waiting.popleft()
            job.cache = make_prompt_cache(self.model.model)
            self._reading.append(job)
            self._post_progress(job, outbox)

    def _has_room(self, job: PromptJob, num_running: int) -> bool:
        if num_running + len(job.rows) > self._settings.max_running_rows:
            return False
        lengths = [*self._lengths.values()]
        lengths += [len(other.token_ids) for other in self._reading for _ in other.rows]
        lengths += [len(job.token_ids)] * len(job.rows)
        needed = self.model.kv_cost.batch_bytes(lengths)
        return needed <= self._memory_budget_bytes() + self.kv_cache_bytes

    # -- reading prompts ---------------------------------------------------------------------

    def _read_slice(self, outbox: Outbox) -> float:
        """Reads a slice of one prompt, or several short prompts whole; returns its seconds."""
        jobs = self._pick(self._slice_tokens())
        started = time.perf_counter()
        try:
            if len(jobs) == 1:
                num_tokens = min(jobs[0].num_remaining, self._slice_tokens())
                read_prompt(self.model.model, jobs[0], num_tokens)
            else:
                num_tokens = read_prompts_together(self.model.model, jobs)
            done = [job for job in jobs if not job.num_remaining]
            self._start_rows(done)
        except Exception as error:
            self._read_failed(jobs, error, outbox)
            return time.perf_counter() - started
        for job in jobs:
            if not job.num_remaining:
                self._reading.remove(job)
            self._post_progress(job, outbox)
        elapsed_s = time.perf_counter() - started
        if num_tokens >= _SMALLEST_SLICE_TOKENS:
            self._slice_tokens_per_s = num_tokens / elapsed_s
        return elapsed_s

    def _pick(self, budget_tokens: int) -> list[PromptJob]:
        """Whose turn it is: the shortest prompts first, unless a longer one was passed over too
        often. Whole prompts share a slice while they fit it, padded to the longest of them."""
        overdue = [job for job in self._reading if job.num_passed_over >= _MAX_PASSED_OVER]
        by_length = sorted(self._reading, key=lambda job: job.num_remaining)
        first = overdue[0] if overdue else by_length[0]
        picked = [first]
        if self._can_share(first, budget_tokens):
            for job in by_length:
                if job is first or not self._can_share(job, budget_tokens):
                    continue
                longest = max(first.num_remaining, job.num_remaining)
                if (len(picked) + 1) * longest > budget_tokens:
                    break
                picked.append(job)
        for job in self._reading:
            job.num_passed_over = 0 if job in picked else job.num_passed_over + 1
        return picked

    def _can_share(self, job: PromptJob, budget_tokens: int) -> bool:
        return (
            self.model.can_batch
            and not job.must_read_alone
            and job.num_processed == 0
            and job.num_remaining <= budget_tokens
        )

    def _read_failed(self, jobs: list[PromptJob], error: Exception, outbox: Outbox) -> None:
        """Whatever one prompt raises ends that prompt's request alone."""
        if len(jobs) > 1:
            # Each again by itself, which shows whose fault it is.
            for job in jobs:
                job.cache = make_prompt_cache(self.model.model)
                job.num_processed, job.must_read_alone = 0, True
            return
        (job,) = jobs
        logger.error("reading a prompt of %d tokens failed", len(job.token_ids), exc_info=error)
        self._reading.remove(job)
        failure = EngineFailed(f"The model failed on this prompt: {error}")
        self._fail(job.rows, failure, outbox)

    def _slice_tokens(self) -> int:
        if self._slice_tokens_per_s is None:
            return _FIRST_SLICE_TOKENS
        slice_s = self._settings.prefill_slice_s if self._batches else _IDLE_SLICE_S
        wanted = int(self._slice_tokens_per_s * slice_s)
        return max(_SMALLEST_SLICE_TOKENS, min(wanted, self._settings.prefill_slice_tokens))

    def _start_rows(self, jobs: list[PromptJob]) -> None:
        newcomers = []
        for job in jobs:
            for i, row in enumerate(job.rows):
                # The last row takes the cache itself, those before it a copy.
                is_last = i == len(job.rows) - 1
                cache = job.cache if is_last else copy_cache(job.cache)
                newcomers.append(Newcomer(row, cache, job.token_ids))
        if not newcomers:
            return
        groups = [newcomers] if self.model.can_batch else [[each] for each in newcomers]
        for group in groups:
            if not self._batches or not self.model.can_batch:
                self._batches.append(DecodeBatch(self.model.model))
            self._batches[-1].join(group, vocabulary_size=self.model.vocabulary_size)
        for job in jobs:
            for row in job.rows:
                self._lengths[row] = len(job.token_ids)

    # -- decoding ----------------------------------------------------------------------------

    def _decode(self, outbox: Outbox) -> None:
        for batch in list(self._batches):
            try:
                tokens = batch.step()
                leaving = {token.row for token in tokens if self._post_token(token, outbox)}
                self._leave(batch, leaving)
            except Exception as error:
                logger.exception("a decoding step of %d answers failed", len(batch))
                self.fault = f"{type(error).__name__}: {error}"
                self._batches.remove(batch)
                for row in batch.rows:
                    self._lengths.pop(row, None)
                failure = EngineFailed(f"The model failed while answering: {error}")
                self._fail(batch.rows, failure, outbox)
        self._num_steps += 1
        if self._num_steps % _STEPS_PER_CLEAR == 0:
            mx.clear_cache()

    def _post_token(self, token: StepToken, outbox: Outbox) -> bool:
        """Sends a token on its way; says whether its row is done."""
        row = token.row
        row.num_generated += 1
        self._lengths[row] += 1
        end: TokenEnd | None = None
        if token.token_id in row.end_ids:
            end = "end_token"
        elif row.num_generated >= row.max_tokens:
            end = "length"
        outbox.append((row.mailbox, TokenNews(row.choice, token.token_id, end, token.scores)))
        return end is not None

    def _leave(self, batch: DecodeBatch, leaving: set[Row]) -> None:
        if not leaving:
            return
        batch.leave(leaving)
        for row in leaving:
            self._lengths.pop(row, None)
        if not batch.rows:
            self._batches.remove(batch)

    # -- news --------------------------------------------------------------------------------

    def _post_progress(self, job: PromptJob, outbox: Outbox) -> None:
        done = job.num_processed if job.num_remaining else len(job.token_ids)
        for row in job.rows:
            outbox.append((row.mailbox, PrefillNews(row.choice, done, len(job.token_ids))))

    def _fail(self, rows: list[Row], error: MaxiError, outbox: Outbox) -> None:
        for row in rows:
            outbox.append((row.mailbox, FaultNews(error)))
