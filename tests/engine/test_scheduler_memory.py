"""Where the memory is at its end: who is tried again, who ends, who waits."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.core.errors import Unavailable
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import FaultNews
from maxi_mlx.engine.row import RowSampling
from tests.engine.conftest import LoadTiny
from tests.engine.desk import Desk
from tests.engine.test_batch import DRAWN, FAMILIES, GREEDY, alone, prompt_of

ALL_AT_ONCE = replace(
    DRAWN, top_p=0.9, min_p=0.01, repetition_penalty=1.1, frequency_penalty=0.5, xtc_probability=0.5
)


class Scarce:
    """The real model, but so many of its next calls find no memory."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.layers = model.layers
        self.num_failing = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        if self.num_failing:
            self.num_failing -= 1
            raise RuntimeError("[malloc_or_wait] Unable to allocate 4096 bytes.")
        return self._model(inputs, cache=cache)


@pytest.fixture
def scarce(load_tiny: LoadTiny) -> LanguageModel:
    model = load_tiny("llama")
    return replace(model, model=Scarce(model.model))


def desk_with_something_stored(model: LanguageModel) -> Desk:
    desk = Desk(model, cache_bytes=1 << 24)
    desk.submit(prompt_of(300, 9), max_tokens=2)
    desk.run()
    assert desk.store.num_bytes
    return desk


@pytest.mark.parametrize("when", ["reading", "decoding alone", "decoding together"])
def test_stored_prefixes_make_way_and_the_answer_goes_on(
    when: str, scarce: LanguageModel, load_tiny: LoadTiny
) -> None:
    desk = desk_with_something_stored(scarce)
    prompts = [prompt_of(40, seed) for seed in range(2 if when == "decoding together" else 1)]
    rows = [desk.submit(prompt, max_tokens=20)[0] for prompt in prompts]
    if when != "reading":
        desk.step(5)
        assert desk.scheduler.num_decoding == len(rows)
    scarce.model.num_failing = 1
    desk.step()
    assert desk.store.num_bytes == 0
    desk.run()
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(load_tiny("llama"), prompt, 20)
        assert not row.is_suspect


def test_with_nothing_stored_it_ends(scarce: LanguageModel) -> None:
    desk = Desk(scarce)
    (row,) = desk.submit(prompt_of(40, 1), max_tokens=20)
    scarce.model.num_failing = 1
    desk.run()
    news = desk.of(row)[-1]
    assert isinstance(news, FaultNews)
    assert "Unable to allocate" in news.error.message


def test_a_row_is_tried_again_once(scarce: LanguageModel) -> None:
    desk = desk_with_something_stored(scarce)
    (row,) = desk.submit(prompt_of(40, 1), max_tokens=20)
    scarce.model.num_failing = 1
    desk.step()
    desk.submit(prompt_of(300, 3), max_tokens=2)  # which stores something again
    while desk.scheduler.num_running < 2:
        desk.step()
    scarce.model.num_failing = 100
    desk.step(20)
    assert isinstance(desk.of(row)[-1], FaultNews)


def test_the_newest_request_ends_with_all_its_rows_and_no_other(
    scarce: LanguageModel, load_tiny: LoadTiny
) -> None:
    desk = Desk(scarce)
    (first,) = desk.submit(prompt_of(30, 1), max_tokens=30)
    desk.step(3)
    second = desk.submit(prompt_of(20, 2), num_rows=2, max_tokens=30)
    while desk.scheduler.num_decoding < 3:
        desk.step()
    assert desk.scheduler.newest_s == second[1].arrived_s > first.arrived_s
    desk.scheduler.fail_newest(lambda: Unavailable("at its end"), desk.news)
    assert desk.scheduler.num_decoding == 1
    failures = [news for mailbox, news in desk.news if mailbox is second[0].mailbox]
    assert isinstance(failures[-1], FaultNews)
    assert sum(isinstance(news, FaultNews) for news in failures) == 1
    desk.run()
    assert desk.tokens(first) == alone(load_tiny("llama"), prompt_of(30, 1), 30)
    assert desk.scheduler.newest_s is None


def test_the_newest_may_be_one_that_is_still_read(scarce: LanguageModel) -> None:
    desk = Desk(scarce)
    (first,) = desk.submit(prompt_of(10, 1), max_tokens=30)
    desk.step(3)
    (second,) = desk.submit(prompt_of(500, 2), max_tokens=30)
    desk.scheduler.prepare(desk.news)
    assert desk.scheduler.reading.jobs
    desk.scheduler.fail_newest(lambda: Unavailable("at its end"), desk.news)
    assert not desk.scheduler.reading.jobs
    assert isinstance(desk.of(second)[-1], FaultNews)
    desk.run()
    assert len(desk.tokens(first)) == 30


def test_nothing_begins_while_others_hold_the_memory(load_tiny: LoadTiny) -> None:
    others_run = True

    def may_overrun(_entry: ModelEntry) -> bool:
        return not others_run

    desk = Desk(load_tiny("llama"), budget=-1000)
    desk.scheduler._may_overrun = may_overrun
    (row,) = desk.submit(prompt_of(40, 1), max_tokens=5)
    desk.step(5)
    assert (desk.scheduler.num_running, desk.scheduler.num_waiting) == (0, 1)
    others_run = False
    desk.run()
    assert len(desk.tokens(row)) == 5


@pytest.mark.parametrize("sampling", [GREEDY, ALL_AT_ONCE], ids=["greedy", "all at once"])
@pytest.mark.parametrize(
    "family",
    ["llama", *(pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES if f != "llama")],
)
def test_rows_never_take_more_than_there_is(
    family: str, sampling: RowSampling, load_tiny: LoadTiny
) -> None:
    """Within turns too: slices, steps under way, and caches that join and leave."""
    model = load_tiny(family)
    desk = Desk(model)
    prompts = [prompt_of(length, length) for length in (40, 200, 300, 7, 120, 60)]
    gc.collect()
    mx.synchronize()
    mx.clear_cache()  # a buffer that is used again may be larger than what is in it
    # Enough for the longest beside two others.
    kv_bytes = model.kv_cost.batch_bytes([512] * 3)
    limit_bytes = mx.get_active_memory() + kv_bytes + model.kv_cost.copy_bytes(kv_bytes)
    limit_bytes += model.pass_cost.least_bytes(num_rows=3, prompt_tokens=300)
    desk.scheduler._memory.left_bytes = lambda: limit_bytes - mx.get_active_memory()
    mx.reset_peak_memory()
    rows = [desk.submit(prompts[0], max_tokens=150, sampling=sampling)[0]]
    most_running = 0
    while desk.scheduler.has_work:
        desk.step()
        most_running = max(most_running, desk.scheduler.num_running)
        if len(desk.tokens(rows[0])) >= 5 * len(rows) and len(rows) < len(prompts):
            rows += desk.submit(prompts[len(rows)], max_tokens=60, sampling=sampling)
    assert mx.get_peak_memory() <= limit_bytes
    assert most_running >= 3
    assert [len(desk.tokens(row)) for row in rows] == [150, 60, 60, 60, 60, 60]
