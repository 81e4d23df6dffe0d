"""What one model's prompts take from the prefix cache, and what their caches leave in it.

Whatever goes wrong here costs the cache, never an answer. Lives on the device thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from maxi_mlx.engine.row import PromptJob, Row
from maxi_mlx.engine.vision.pictures import place_outside
from maxi_mlx.kv_cache.match import Match
from maxi_mlx.kv_cache.model_store import ModelStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Less is read anew sooner than it is kept and found, or fetched from disk.
MIN_TOKENS = 16
_SHORT_TOKENS = 64
_MIN_RESTORED_TOKENS = 128
# A disk that does not answer is waited for no longer, and not asked for a while.
_RESTORE_TIMEOUT_S = 5.0
_DISK_REST_S = 60.0


@dataclass(frozen=True, slots=True)
class _Wait:
    """Of a prompt for the disk."""

    until_s: float
    most_s: float


class Prefixes:
    """``free`` asks for so many bytes of what is stored, of whatever model, to be given back;
    ``close`` gives this model's memory back."""

    def __init__(
        self,
        store: ModelStore,
        *,
        free: Callable[[int], None],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = store
        self.free = free
        self.close = close
        self._restoring: dict[PromptJob, _Wait] = {}
        self._disk_rests_until_s = 0.0
        self._list_until_s = time.monotonic() + _RESTORE_TIMEOUT_S

    @property
    def num_restoring(self) -> int:
        return sum(len(job.rows) for job in self._restoring)

    @property
    def num_stored_bytes(self) -> int:
        """What could be given back: of all models."""
        return self.store.num_bytes_of_all

    # -- before a prompt is read -------------------------------------------------------------

    def begin_restore(self, job: PromptJob, *, on_done: Callable[[], None]) -> bool:
        """Has the disk's share of a prompt brought to memory, once a prompt, where it is worth it.
        Says whether there is anything to wait for; then this is to be asked again."""
        if not _may_take(job) or job.was_restored or len(job.token_ids) <= _MIN_RESTORED_TOKENS:
            return False
        if time.monotonic() < self._disk_rests_until_s:
            return False
        if not self.store.is_listed:
            # Just loaded: the disk has yet to say what it has.
            return self._wait(job, self.store.when_listed, on_done, is_short=True)
        job.was_restored = True
        match = self._safely(lambda: self._find(job), Match())
        if match.num_on_disk < _MIN_RESTORED_TOKENS:
            return False
        return self._wait(job, partial(self.store.restore, match), on_done)

    def _wait(
        self,
        job: PromptJob,
        begin: Callable[[Callable[[], None]], None],
        on_done: Callable[[], None],
        *,
        is_short: bool = False,
    ) -> bool:
        """For what ``begin`` begins; ``is_short``: for no longer than reading would take."""
        reading_s = len(job.token_ids) * self.store.token_cost_s
        most_s = min(_RESTORE_TIMEOUT_S, reading_s) if is_short else _RESTORE_TIMEOUT_S
        self._restoring[job] = _Wait(time.monotonic() + most_s, most_s)

        def done() -> None:
            self._disk_rests_until_s = 0.0  # it answers
            # Else it was cancelled, or is not waited for any more.
            if self._restoring.pop(job, None) is not None:
                on_done()

        def begun() -> bool:
            begin(done)
            return True

        # Where it failed before anyone was told, nothing comes to wait for.
        return self._safely(begun, False) or self._restoring.pop(job, None) is None

    def overdue(self) -> list[PromptJob]:
        """Those for which the disk has had its time; they are waited for no longer."""
        now_s = time.monotonic()
        jobs = [job for job, wait in self._restoring.items() if wait.until_s <= now_s]
        for job in jobs:
            job.was_restored = True
            if self._restoring.pop(job).most_s == _RESTORE_TIMEOUT_S:
                logger.warning(
                    "%s: the prompt cache's disk does not answer; nothing is read from it for "
                    "%.0f s",
                    job.rows[0].request_id,
                    _DISK_REST_S,
                )
                self._disk_rests_until_s = now_s + _DISK_REST_S
        return jobs

    def forget(self, is_gone: Callable[[PromptJob], bool]) -> list[PromptJob]:
        """Takes out those whose requests are gone."""
        jobs = [job for job in self._restoring if is_gone(job)]
        for job in jobs:
            del self._restoring[job]
        return jobs

    def fetch(self, job: PromptJob, new_cache: Callable[[], list[Any]]) -> None:
        """Gives a prompt its cache: with what is stored of its beginning, or an empty one."""
        job.cache, job.num_processed = [], 0
        if _may_take(job):
            self._safely(lambda: self._fetch(job), None)
        if not job.cache:
            job.cache, job.num_processed = new_cache(), 0

    def _find(self, job: PromptJob) -> Match:
        # The last token is the input of the row's first step.
        match = self.store.find(job.token_ids, most_tokens=len(job.token_ids) - 1)
        place = place_outside(match.num_tokens, job.pictures)
        if place == match.num_tokens:
            return match
        return self.store.find(job.token_ids, most_tokens=place)

    def _fetch(self, job: PromptJob) -> None:
        match = self._find(job)
        if _is_trifle(match.num_tokens, len(job.token_ids)):
            match = Match(num_asked=match.num_asked, num_shared=match.num_shared)
        room_tokens = len(job.token_ids) - match.num_tokens
        job.cache = self.store.fetch(match, room_tokens=room_tokens)
        job.num_processed = match.num_tokens
        num_shared = place_outside(match.num_shared, job.pictures)
        is_fork = num_shared > match.num_tokens
        if is_fork and not _is_trifle(num_shared, len(job.token_ids)):
            # Where this prompt parts from a stored one, others may too: a system prompt's end.
            job.borders = tuple(sorted({*job.borders, num_shared}))

    # -- after -------------------------------------------------------------------------------

    def keep_read(self, job: PromptJob) -> None:
        """Keeps what was read of a prompt so far."""
        if job.uses_cache:
            self._keep(job.token_ids[: job.num_processed], lambda: job.cache)

    def keep_written(self, row: Row, num_tokens: int, cache: Callable[[], list[Any]]) -> None:
        """Keeps a row's text, of which ``num_tokens`` are in its cache."""
        if row.uses_cache:
            self._keep(row.token_ids[:num_tokens], cache)

    def _keep(self, token_ids: Sequence[int], cache: Callable[[], list[Any]]) -> None:
        # What is kept before the disk has said what it has, would stand in the way of that.
        is_early = not self.store.is_listed and time.monotonic() < self._list_until_s
        if len(token_ids) >= MIN_TOKENS and not is_early:
            self._safely(lambda: self.store.keep(token_ids, cache()), None)

    def _safely(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return work()
        except Exception:
            logger.exception("the prefix cache failed; answers go on without it")
            return otherwise


def _is_trifle(num_tokens: int, num_prompt_tokens: int) -> bool:
    """Short prompts are read together, which takes no longer than reading one of them. Those that
    have a beginning in common, such as a template's first words, are not to be told apart by it."""
    return num_tokens < MIN_TOKENS or (
        num_tokens < _SHORT_TOKENS and 2 * num_tokens < num_prompt_tokens
    )


def _may_take(job: PromptJob) -> bool:
    """A row that was in a batch that failed is read anew, and from nothing: what is stored may be
    what was at fault."""
    return job.uses_cache and not job.must_read_alone
