"""A scheduler with its news gathered, driven turn by turn as the device thread does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxi_mlx.core.settings import STRATEGIES, SchedulerSettings
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import FaultNews, News, TokenNews
from maxi_mlx.engine.prefixes import Prefixes
from maxi_mlx.engine.rota import Rota
from maxi_mlx.engine.row import PromptJob, Row
from maxi_mlx.engine.scheduler import Scheduler
from maxi_mlx.kv_cache.store import PrefixStore
from tests.engine.kv_cache.memory_disk import MemoryDisk
from tests.engine.test_batch import make_row

BALANCED = STRATEGIES["balanced"]


class Desk:
    """A scheduler and a clock-less view of its news."""

    def __init__(
        self,
        model: LanguageModel,
        settings: SchedulerSettings = BALANCED,
        *,
        budget: int = 1 << 30,
        cache_bytes: int = 0,
        disk: MemoryDisk | None = None,
    ) -> None:
        self.budget = budget
        self.rota = Rota(settings)
        post = disk.post if disk is not None else None
        self.store = PrefixStore(cache_bytes, disk=disk, post=post)
        prefixes = Prefixes(self.store.open("tiny", model.new_cache), free=self.free)
        self.scheduler = Scheduler(
            model, settings, memory_left_bytes=lambda: self.budget, prefixes=prefixes
        )
        self.news: list[tuple[Any, News]] = []

    def free(self, num_bytes: int) -> None:
        """As the device thread does, of a budget that the test set."""
        before = self.store.num_bytes
        self.store.shrink_to(max(before - num_bytes, 0))
        self.budget += before - self.store.num_bytes

    def submit(self, prompt: list[int], *, num_rows: int = 1, **changes: Any) -> list[Row]:
        tokens = {"num_prompt_tokens": len(prompt)}
        box = object()
        rows = [
            make_row(mailbox=box, choice=i, token_ids=list(prompt), **tokens, **changes)
            for i in range(num_rows)
        ]
        self.scheduler.submit(PromptJob(token_ids=prompt, rows=rows))
        return rows

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.news += self.rota.turn([self.scheduler])
            # A moment in which the machine did something else is no debt to running answers.
            self.rota._owed_s = min(self.rota._owed_s, max(8 * self.rota._step_s, 0.01))

    def run(self) -> None:
        for _ in range(5000):
            if not self.scheduler.has_work:
                return
            self.step()
        raise AssertionError("the scheduler does not come to an end")

    def of(self, row: Row) -> list[News]:
        return [
            news
            for mailbox, news in self.news
            if mailbox is row.mailbox and (isinstance(news, FaultNews) or news.choice == row.choice)
        ]

    def tokens(self, row: Row) -> list[int]:
        return [news.token_id for news in self.of(row) if isinstance(news, TokenNews)]

    def has_slices_of(self, num_tokens: int) -> None:
        """From now on, however fast or busy the machine is."""
        self.scheduler.reading._slice_size.tokens_for = (  # type: ignore[method-assign]
            lambda *_, most_tokens, **__: min(num_tokens, most_tokens)
        )


@contextmanager
def counting_reads(scheduler: Scheduler) -> Iterator[list[int]]:
    """How many prompts each slice was for."""
    reads: list[int] = []
    pick = scheduler.reading._pick

    def counting(budget_tokens: int) -> list[PromptJob]:
        jobs = pick(budget_tokens)
        reads.append(len(jobs))
        return jobs

    scheduler.reading._pick = counting  # type: ignore[method-assign]
    yield reads
