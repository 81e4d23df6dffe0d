"""Prompts that begin alike and came close together: the first reads what they share for all.

    leader    [ system prompt, tools, history ........ | its own end ]
    follower  waits ................................... ▲ takes a copy of the leader's cache here

An agent's sub-agents, a title beside a turn, retries. Pure: says who waits for whom and where the
leader has to stop; knows nothing of caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maxi_mlx.engine.row import PromptJob
from maxi_mlx.engine.vision.pictures import place_outside

# Less than this is read again sooner than it is waited for.
MIN_SHARED_TOKENS = 32


def shared_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two prompts have in common at their start, by halving: comparing slices is
    done in C, comparing tokens one by one is not."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Siblings:
    """Who follows whom. A follower follows one leader, and may lead others itself once it reads."""

    def __init__(self) -> None:
        self._followers: dict[PromptJob, list[tuple[int, PromptJob]]] = {}
        self._leaders: dict[PromptJob, PromptJob] = {}

    def is_waiting(self, job: PromptJob) -> bool:
        return job in self._leaders

    def is_leading(self, job: PromptJob) -> bool:
        return bool(self._followers.get(job))

    def find_leader(self, job: PromptJob, reading: Iterable[PromptJob]) -> bool:
        """Lets a job wait for the one that shares most with it, beyond what it has read, if that
        one has not read past what they share. Says whether it found one.

        A job that leads follows nobody: it would come past the places where others wait for it.
        """
        if self.is_leading(job):
            return False
        best, best_shared = None, job.num_processed + MIN_SHARED_TOKENS - 1
        for other in reading:
            if other is job or self.is_waiting(other) or other.must_read_alone:
                continue
            # A prompt's last token is not read; it is the input of the first step.
            shared = min(
                shared_prefix(other.token_ids, job.token_ids),
                len(other.token_ids) - 1,
                len(job.token_ids) - 1,
            )
            shared = place_outside(shared, job.pictures)
            if shared > best_shared and shared >= other.num_processed:
                best, best_shared = other, shared
        if best is None:
            return False
        self._leaders[job] = best
        self._followers.setdefault(best, []).append((best_shared, job))
        return True

    def stop_at(self, leader: PromptJob) -> int | None:
        """The token before which a leader has to stop next, so that somebody may take a copy."""
        return min((place for place, _ in self._followers.get(leader, ())), default=None)

    def arrived(self, leader: PromptJob) -> list[PromptJob]:
        """Those who may go on from where the leader is now; they wait no longer."""
        followers = self._followers.pop(leader, [])
        ready = [job for place, job in followers if place == leader.num_processed]
        rest = [(place, job) for place, job in followers if place != leader.num_processed]
        if rest:
            self._followers[leader] = rest
        for job in ready:
            del self._leaders[job]
        return ready

    def forget(self, job: PromptJob) -> list[PromptJob]:
        """A job is gone. Returns those who waited for it and now have nobody."""
        leader = self._leaders.pop(job, None)
        if leader is not None:
            left = [entry for entry in self._followers[leader] if entry[1] is not job]
            self._followers[leader] = left
        orphans = [orphan for _, orphan in self._followers.pop(job, [])]
        for orphan in orphans:
            del self._leaders[orphan]
        return orphans
