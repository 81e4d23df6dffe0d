"""Whatever happens beside it, an answer is the one that the prompt gives alone and unknown.

Several choices, siblings, cancelled prompts and answers, rows put back for want of memory, stored
prefixes taken away under way, draws by the host and by the device: all at once, on every cache.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.engine import logits_edits
from maxi_mlx.engine.cache_form import CacheForm
from maxi_mlx.engine.language_model import LanguageModel, load_language_model
from maxi_mlx.engine.mailbox import FaultNews, TokenNews
from maxi_mlx.engine.row import PromptJob, Row, draw_key
from tests.conftest import TinyModel
from tests.engine.conftest import entry_for
from tests.engine.desk import BALANCED, Desk
from tests.engine.test_batch import ALL_KINDS, FAMILIES, make_row, prompt_of
from tests.models import build_model

pytestmark = pytest.mark.slow

NUM_ROUNDS = 8
MOST_TOKENS = 240


class Mix:
    def __init__(self, model: LanguageModel, seed: int) -> None:
        self.model = model
        self.dice = random.Random(seed)
        self.one_row_bytes = model.kv_cost.row_bytes(256)
        budgets = (4 * self.one_row_bytes, 16 * self.one_row_bytes, 1 << 28)
        self.desk = Desk(
            model,
            replace(BALANCED, prefill_slice_tokens=self.dice.choice((16, 40, 1024))),
            cache_bytes=self.dice.choice(budgets),
        )
        self.texts = [prompt_of(30, number) for number in range(3)]
        self.jobs: list[tuple[list[int], list[Row]]] = []
        self.left: set[Row] = set()

    def text(self) -> list[int]:
        """One that was there before, and goes on, parts from it, or is the same."""
        text = list(self.dice.choice(self.texts))
        if self.dice.random() < 0.3:
            text = text[: self.dice.randint(1, len(text))]
        if self.dice.random() < 0.8:
            text += prompt_of(self.dice.randint(1, 40), self.dice.randrange(1000))
        return text[:MOST_TOKENS]

    def submit(self) -> None:
        text, dice = self.text(), self.dice
        sampling = replace(dice.choice(ALL_KINDS), seed=dice.randrange(100))
        settings: dict[str, Any] = {
            "mailbox": object(),
            "num_prompt_tokens": len(text),
            "max_tokens": dice.randint(1, 30),
            "end_ids": frozenset(dice.sample(range(10, 400), dice.choice((0, 0, 20)))),
            "top_logprobs": dice.choice((None, None, 0, 3)),
            "uses_cache": dice.random() < 0.9,
        }
        rows = [
            make_row(
                sampling,
                choice=choice,
                token_ids=list(text),
                key=draw_key(sampling.seed, choice),
                **settings,
            )
            for choice in range(dice.choice((1, 1, 1, 2, 4)))
        ]
        borders = dice.sample(range(1, len(text)), min(len(text) - 1, dice.choice((0, 2, 5))))
        job = PromptJob(token_ids=text, rows=rows, borders=tuple(sorted(borders)))
        self.desk.scheduler.submit(job)
        self.jobs.append((text, rows))
        self.desk.step(dice.choice((0, 0, 1, 3)))

    def disturb(self) -> None:
        what = self.dice.random()
        _, rows = self.dice.choice(self.jobs)
        if what < 0.05:
            self.desk.budget = self.dice.choice((0, 1 << 30, self.one_row_bytes))
        elif what < 0.08:
            self.leave(rows)
            self.desk.scheduler.cancel(rows[0].mailbox)
        elif what < 0.12:
            self.leave([self.dice.choice(rows)])  # its stop string came
        elif what < 0.14:
            store = self.desk.store
            store.shrink_to(self.dice.randrange(1 + store.num_bytes))

    def leave(self, rows: list[Row]) -> None:
        for row in rows:
            row.cancelled = True
        self.left.update(rows)

    def round(self) -> None:
        self.jobs.clear()
        for _ in range(self.dice.randint(1, 6)):
            self.submit()
        num_steps = 0
        while self.desk.scheduler.has_work:
            self.disturb()
            self.desk.step()
            num_steps += 1
            assert num_steps < 4000, "it does not come to an end"
            if num_steps > 300:
                self.desk.budget = 1 << 30
        self.desk.budget = 1 << 30
        for text, rows in self.jobs:
            for row in rows:
                self.check(text, row)
        self.texts = self.texts[-8:]

    def check(self, text: list[int], row: Row) -> None:
        got = self.desk.tokens(row)
        if row not in self.left:
            assert not any(isinstance(news, FaultNews) for news in self.desk.of(row))
        single = Desk(self.model)
        own = replace(
            row,
            mailbox=object(),  # type: ignore[arg-type]
            token_ids=list(text),
            uses_cache=False,
            cancelled=False,
            is_suspect=False,
        )
        single.scheduler.submit(PromptJob(token_ids=text, rows=[own]))
        single.run()
        expected = single.tokens(own)
        assert got == (expected[: len(got)] if row in self.left else expected)
        if row.top_logprobs is not None:
            assert logprobs(self.desk, row) == pytest.approx(
                logprobs(single, own)[: len(got)], abs=1e-2
            )
        if row not in self.left:
            self.texts.append([*text, *got])


def logprobs(desk: Desk, row: Row) -> list[float]:
    scores = [news.scores for news in desk.of(row) if isinstance(news, TokenNews)]
    return [entry.logprob for entry in scores if entry is not None]


@pytest.mark.parametrize("xp", [np, mx], ids=["host draws", "device draws"])
@pytest.mark.parametrize("family", [*FAMILIES, "llama4"])
def test_every_answer_is_as_if_alone(
    family: str, xp: Any, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logits_edits, "array_module", lambda vocabulary_size: xp)
    model = load_language_model(entry_for(tiny_model(family)), CacheForm())
    mix = Mix(model, seed=len(family) + (xp is mx))
    for _ in range(NUM_ROUNDS):
        mix.round()
    stats = mix.desk.store.stats()
    assert stats.num_tokens_saved > 0


def test_every_answer_is_as_if_alone_on_quantised_caches(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "wide", "llama", head_dim=32)
    mix = Mix(load_language_model(entry_for(folder), CacheForm(kv_bits=8)), seed=1)
    for _ in range(NUM_ROUNDS):
        mix.round()
    assert mix.desk.store.stats().num_tokens_saved > 0
