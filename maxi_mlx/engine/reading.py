"""The prompts of one model that are being read, slice by slice, and whose turn it is.

Short prompts share a slice; siblings read once what they share. Lives on the device thread; knows
nothing of rows that decode.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import mlx.core as mx

from maxi_mlx.core.settings import SchedulerSettings
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import Mailbox
from maxi_mlx.engine.prefill import copy_cache, read_prompt, read_prompts_together
from maxi_mlx.engine.prefixes import Prefixes
from maxi_mlx.engine.row import PromptJob
from maxi_mlx.engine.siblings import Siblings
from maxi_mlx.engine.slice_size import SliceSize
from maxi_mlx.engine.vision.pictures import next_start
from maxi_mlx.kv_cache.pieces import BLOCK_TOKENS

# Slices for others that came later, after which a prompt is one of those that are overdue.
_MAX_PASSED_OVER = 3
# A prompt is short where so many slices that are worth their fixed cost read it.
_SHORT_SLICES = 2
# Of a slice: what it may have more, so that nothing of a prompt is left.
_SPARE_PART = 4
# Freed buffers go back to the system after so many tokens read.
_TOKENS_PER_CLEAR = 2048


@dataclass(slots=True)
class SliceEnd:
    """What a slice came to: prompts that got on, from ``depth`` tokens before it, and those that
    failed, with what they raised. Where there was nothing left to read, ``depth`` is 0: the slice
    took no time."""

    read: list[PromptJob] = field(default_factory=list)
    depth: int = 0
    failed: list[tuple[PromptJob, Exception]] = field(default_factory=list)


class Reading:
    """Owns the prompts and their half-filled caches."""

    def __init__(
        self, model: LanguageModel, settings: SchedulerSettings, prefixes: Prefixes
    ) -> None:
        self._model = model
        self._settings = settings
        self._prefixes = prefixes
        self.jobs: list[PromptJob] = []
        self._siblings = Siblings()
        self._slice_size = SliceSize(model.pass_cost.seconds)
        self._is_for_overdue = False  # the latest slice
        self._is_crowded = False  # several short ones waited, and one of them still does
        self._num_tokens_since_clear = 0
        self.num_prefill_tokens = 0  # computed in all, padding left out

    @property
    def num_wanting(self) -> int:
        """Prompts that want the device; those that wait for what a sibling reads do not."""
        return sum(not self._siblings.is_waiting(job) for job in self.jobs)

    @property
    def worthwhile_slice_s(self) -> float:
        """Several short prompts wait so for fewer slices, by themselves or sharing one, and so does
        the last of them. Where long ones alone wait, slices are as short as the answers like."""
        return self._slice_size.worthwhile_s if self._is_worth_stretching() else 0.0

    @property
    def cache_bytes(self) -> int:
        return sum(
            int(entry.nbytes) for job in self.jobs for entry in job.cache if not entry.empty()
        )

    def _is_worth_stretching(self) -> bool:
        num_tokens = self._slice_size.tokens_for(
            self._slice_size.worthwhile_s,
            depth=0,
            most_tokens=self._settings.prefill_slice_tokens,
        )
        wanting = [job for job in self.jobs if not self._siblings.is_waiting(job)]
        num_short = sum(job.num_remaining <= _SHORT_SLICES * num_tokens for job in wanting)
        return num_short > 1 or (num_short == 1 and self._is_crowded)

    def add(self, job: PromptJob) -> None:
        self._is_crowded = self._is_crowded and self._is_worth_stretching()
        self._follow(job)
        self.jobs.append(job)

    def remove(self, job: PromptJob) -> None:
        """Takes a prompt out. Those who waited for it find another sibling, or read themselves."""
        self.jobs.remove(job)
        for orphan in self._siblings.forget(job):
            self._follow(orphan)

    def cancel(self, mailbox: Mailbox) -> None:
        for job in [job for job in self.jobs if job.mailbox is mailbox]:
            self.remove(job)
            self._prefixes.keep_read(job)  # a client that left may ask again
            job.cache = []  # at once, whoever may still hold on to the job

    def drop(self, mailbox: Mailbox) -> None:
        """The same, where there is no memory to keep anything."""
        for job in [job for job in self.jobs if job.mailbox is mailbox]:
            self.remove(job)
            job.cache = []

    def clear(self) -> None:
        self.jobs = []
        self._siblings = Siblings()

    def done(self) -> list[PromptJob]:
        """Prompts that are read to their end: all but the last token. They stay until `remove`."""
        return [job for job in self.jobs if not job.num_remaining]

    # -- a slice -----------------------------------------------------------------------------

    def read(self, slice_s: float, left_bytes: int) -> SliceEnd:
        """A slice of one prompt, or several short ones whole, for about ``slice_s``, and smaller
        where what it takes for a moment is more than ``left_bytes``."""
        most_tokens = self._most_tokens(left_bytes)
        self._is_crowded = self._is_worth_stretching()
        budget_tokens = self._slice_size.tokens_for(slice_s, depth=0, most_tokens=most_tokens)
        jobs = self._pick(self._with_spare(budget_tokens, most_tokens))
        depth = jobs[0].num_processed
        started = time.perf_counter()
        try:
            if len(jobs) == 1:
                if self._looked(jobs[0]):
                    return SliceEnd(read=jobs, depth=depth)
                num_tokens = self._read_one(jobs[0], self._budget_of(jobs[0], slice_s, left_bytes))
            else:
                num_tokens = read_prompts_together(self._model.model, jobs)
                self.num_prefill_tokens += sum(job.num_processed for job in jobs)
        except Exception as error:
            return self.failed(jobs, error)
        self._slice_size.learn(num_tokens, time.perf_counter() - started, depth=depth)
        self._num_tokens_since_clear += num_tokens
        if self._num_tokens_since_clear >= _TOKENS_PER_CLEAR:
            self._num_tokens_since_clear = 0
            mx.clear_cache()
        return SliceEnd(read=jobs, depth=depth if num_tokens else 0)

    def _most_tokens(self, left_bytes: int, *, depth: int = 0) -> int:
        return self._model.pass_cost.most_tokens(
            left_bytes, depth=depth, most_tokens=self._settings.prefill_slice_tokens
        )

    def _budget_of(self, job: PromptJob, slice_s: float, left_bytes: int) -> int:
        """What a slice of this prompt may have, with what little it would leave."""
        depth = job.num_processed
        most_tokens = self._most_tokens(left_bytes, depth=depth)
        budget_tokens = self._slice_size.tokens_for(slice_s, depth=depth, most_tokens=most_tokens)
        is_whole = job.num_remaining <= self._with_spare(budget_tokens, most_tokens)
        return job.num_remaining if is_whole else budget_tokens

    def _with_spare(self, budget_tokens: int, most_tokens: int) -> int:
        """Where short prompts wait, a slice may have so many more tokens if a prompt ends with
        them."""
        if not self.worthwhile_slice_s:
            return budget_tokens
        spare_tokens = min(self._slice_size.spare_tokens, budget_tokens // _SPARE_PART)
        return min(budget_tokens + spare_tokens, most_tokens)

    def _read_one(self, job: PromptJob, budget_tokens: int) -> int:
        """A slice of one prompt, up to where a sibling takes a copy, or a message ends; returns
        its tokens."""
        is_whole = budget_tokens >= job.num_remaining
        ends = [len(job.token_ids) - 1 if is_whole else self._slice_end(job, budget_tokens)]
        stops = (
            self._siblings.stop_at(job),
            job.next_border,
            next_start(job.num_processed, job.pictures),
        )
        ends += [end for end in stops if end is not None]
        end, eyes = min(ends), self._model.eyes
        if eyes is not None:
            end = eyes.end_of_slice(end, job)
        num_tokens = end - job.num_processed
        read_prompt(self._model.model, job, num_tokens, eyes=eyes)
        self.num_prefill_tokens += num_tokens
        is_block_end = self._keeps_blocks(job) and job.num_processed % BLOCK_TOKENS == 0
        if job.num_processed in job.borders or (is_block_end and job.num_remaining):
            self._prefixes.keep_read(job)
        self._hand_over(job)
        return num_tokens

    def _hand_over(self, leader: PromptJob) -> None:
        """Those who share all that was read so far go on from there by themselves."""
        for follower in self._siblings.arrived(leader):
            follower.cache = copy_cache(leader.cache)
            follower.num_processed = leader.num_processed
            self._follow(follower)

    def _follow(self, job: PromptJob) -> None:
        """Has it wait for a sibling, or go on from where that one stands, which may read no
        further."""
        if self._siblings.find_leader(job, self.jobs):
            for other in self.jobs:
                self._hand_over(other)

    def _looked(self, job: PromptJob) -> bool:
        """A slice for an image: one crop of it, where the prompt can't be read on without."""
        eyes = self._model.eyes
        if eyes is None or not eyes.has_to_look(job):
            return False
        eyes.look(job)
        return True

    def _slice_end(self, job: PromptJob, budget_tokens: int) -> int:
        """A block's end where that is not much sooner: what was read is kept by whole blocks, slice
        by slice, since copying a long prompt at once would hold up everybody."""
        end = job.num_processed + budget_tokens
        block_end = end - end % BLOCK_TOKENS
        is_near = block_end - job.num_processed > budget_tokens // 2
        return block_end if is_near and self._keeps_blocks(job) else end

    def _keeps_blocks(self, job: PromptJob) -> bool:
        return job.uses_cache and not self._model.keeps_states

    def failed(self, jobs: list[PromptJob], error: Exception) -> SliceEnd:
        """Whatever one prompt raises ends that prompt's request alone."""
        if len(jobs) > 1:
            # Each again by itself, which shows whose fault it is.
            for job in jobs:
                job.cache = self._model.new_cache()
                job.num_processed, job.must_read_alone = 0, True
            return SliceEnd()
        for job in jobs:
            self.remove(job)
            job.cache = []
        return SliceEnd(failed=[(job, error) for job in jobs])

    # -- whose turn it is --------------------------------------------------------------------

    def _pick(self, budget_tokens: int) -> list[PromptJob]:
        """The shortest prompts first, but every other slice is for those that were passed over too
        often, if any. Whole prompts share a slice while they fit it, padded to the longest."""
        jobs = [job for job in self.jobs if not self._siblings.is_waiting(job)]
        overdue = [job for job in jobs if job.num_passed_over >= _MAX_PASSED_OVER]
        by_length = sorted(jobs, key=lambda job: job.num_remaining)
        self._is_for_overdue = bool(overdue) and not self._is_for_overdue
        most_overdue = max(overdue, key=lambda job: job.num_passed_over, default=None)
        first = most_overdue if most_overdue is not None and self._is_for_overdue else by_length[0]
        picked = [first]
        if self._can_share(first, budget_tokens):
            for job in by_length:
                if job is first or not self._can_share(job, budget_tokens):
                    continue
                longest = max(first.num_remaining, job.num_remaining)
                if (len(picked) + 1) * longest > budget_tokens:
                    break
                picked.append(job)
        # Who is read before those that came later is not passed over.
        latest = max(jobs.index(job) for job in picked)
        for place, job in enumerate(jobs):
            if job in picked:
                job.num_passed_over = 0
            elif place < latest:
                job.num_passed_over += 1
        return picked

    def _can_share(self, job: PromptJob, budget_tokens: int) -> bool:
        return (
            self._model.can_batch
            and not job.must_read_alone
            and not job.pictures
            and not self._siblings.is_leading(job)
            and job.next_border is None
            and job.num_processed == 0
            and job.num_remaining <= budget_tokens
        )
