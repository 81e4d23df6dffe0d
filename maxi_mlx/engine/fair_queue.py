"""Prompts that wait for a place: requests take turns, so that one with a thousand prompts does not
keep the others waiting. Pure: knows nothing of the device."""

from __future__ import annotations

from collections import deque

from maxi_mlx.engine.mailbox import Mailbox
from maxi_mlx.engine.row import PromptJob


class FairQueue:
    """First come, first served between requests' next prompts; then a request goes to the back."""

    def __init__(self) -> None:
        self._by_request: dict[Mailbox, deque[PromptJob]] = {}  # in the order of their turns

    def __bool__(self) -> bool:
        return bool(self._by_request)

    @property
    def num_rows(self) -> int:
        return sum(len(job.rows) for jobs in self._by_request.values() for job in jobs)

    def put(self, job: PromptJob) -> None:
        self._by_request.setdefault(job.mailbox, deque()).append(job)

    def put_back(self, job: PromptJob) -> None:
        """For a job that was running: it comes before all that wait."""
        jobs = self._by_request.pop(job.mailbox, deque())
        jobs.appendleft(job)
        self._by_request = {job.mailbox: jobs} | self._by_request

    def first(self) -> PromptJob:
        return next(iter(self._by_request.values()))[0]

    def take(self) -> PromptJob:
        """Takes the first; its request's next prompt goes to the back."""
        mailbox, jobs = next(iter(self._by_request.items()))
        job = jobs.popleft()
        del self._by_request[mailbox]
        if jobs:
            self._by_request[mailbox] = jobs
        return job

    def drop(self, mailbox: Mailbox) -> None:
        """Takes everything of one request out."""
        self._by_request.pop(mailbox, None)

    def clear(self) -> list[PromptJob]:
        """Takes everything out."""
        jobs = [job for jobs in self._by_request.values() for job in jobs]
        self._by_request.clear()
        return jobs
