"""The device is shared fairly, and what one request breaks stays its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.core.settings import STRATEGIES, SchedulerSettings
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import FaultNews, News, PrefillNews, TokenNews
from maxi_mlx.engine.rota import Rota
from maxi_mlx.engine.row import PromptJob, Row
from maxi_mlx.engine.scheduler import Scheduler
from tests.engine.conftest import LoadTiny
from tests.engine.test_batch import DRAWN, FAMILIES, alone, make_row, prompt_of

BALANCED = STRATEGIES["balanced"]
FAULTY_TOKEN = 77


class Faulty:
    """The real model, but it fails on any input that holds one certain token."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.layers = model.layers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        if FAULTY_TOKEN in inputs.flatten().tolist():
            raise RuntimeError("no such kernel")
        return self._model(inputs, cache=cache)


class Desk:
    """A scheduler and a clock-less view of its news."""

    def __init__(
        self, model: LanguageModel, settings: SchedulerSettings = BALANCED, *, budget: int = 1 << 30
    ) -> None:
        self.budget = budget
        self.rota = Rota(settings)
        self.scheduler = Scheduler(model, settings, memory_left_bytes=lambda: self.budget)
        self.news: list[tuple[Any, News]] = []

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


def test_a_running_answer_goes_on_between_the_slices_of_a_long_prompt(load_tiny: LoadTiny) -> None:
    """No two slices follow each other without the running answer getting its share."""
    settings = replace(BALANCED, prefill_slice_tokens=16, decode_share=0.5)
    desk = Desk(load_tiny("llama"), settings)
    (runner,) = desk.submit(prompt_of(5, 1), max_tokens=300)
    desk.step(4)
    desk.news.clear()
    (late,) = desk.submit(prompt_of(200, 2), max_tokens=2)
    desk.run()
    order = [
        "slice" if isinstance(news, PrefillNews) else "token"
        for mailbox, news in desk.news
        if mailbox is runner.mailbox or isinstance(news, PrefillNews)
    ]
    # The first mark only says that reading has begun.
    first, last = order.index("slice") + 1, len(order) - order[::-1].index("slice")
    window = order[first:last]
    assert window.count("slice") >= 12
    assert "slice slice" not in " ".join(window)
    assert len(desk.tokens(late)) == 2


def test_a_short_prompt_does_not_wait_for_a_long_one(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=16))
    (long,) = desk.submit(prompt_of(400, 1), max_tokens=3)
    (short,) = desk.submit(prompt_of(10, 2), max_tokens=3)
    desk.run()
    ends = [
        mailbox
        for mailbox, news in desk.news
        if isinstance(news, TokenNews) and news.end is not None
    ]
    assert ends == [short.mailbox, long.mailbox]


@pytest.mark.parametrize("family", FAMILIES)
def test_short_prompts_share_a_slice_and_equal_each_alone(family: str, load_tiny: LoadTiny) -> None:
    """Lengths around the window of 16, and prompts of one token, whose caches are empty."""
    model = load_tiny(family)
    lengths = (1, 2, 15, 16, 17, 18, 33, 40, 1, 31)
    prompts = [prompt_of(length, seed) for seed, length in enumerate(lengths)]
    desk = Desk(model, replace(BALANCED, prefill_slice_tokens=1024, prefill_slice_s=10))
    desk.submit(prompt_of(40, 99), max_tokens=2)  # so that the model's speed is known
    desk.run()
    with counting_reads(desk.scheduler) as reads:
        rows = [desk.submit(prompt, max_tokens=24)[0] for prompt in prompts]
        desk.run()
    assert reads == [10]
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 24)


def test_padding_is_bounded(load_tiny: LoadTiny) -> None:
    """A long prompt is not padded out to by short ones beyond the slice's tokens."""
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=128, decode_share=1e-6))
    desk.submit(prompt_of(40, 99), max_tokens=2)
    desk.run()
    with counting_reads(desk.scheduler) as reads:
        for length in (10, 100, 11, 12, 13, 14, 101):
            desk.submit(prompt_of(length, length), max_tokens=2)
        desk.run()
    assert reads == [5, 1, 1]


def test_a_long_prompt_is_not_passed_over_for_ever(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=16))
    (long,) = desk.submit(prompt_of(200, 1), max_tokens=2)
    for i in range(60):
        desk.submit(prompt_of(10, i), max_tokens=2)
        desk.step()
    progress = [news for news in desk.of(long) if isinstance(news, PrefillNews)]
    assert progress[-1].processed_tokens >= 100


@pytest.mark.parametrize("family", [*FAMILIES, "llama4"])
def test_siblings_read_what_they_share_once(family: str, load_tiny: LoadTiny) -> None:
    model = load_tiny(family)
    system = prompt_of(120, 7)
    tails = [prompt_of(n, n) for n in (20, 5, 30)]
    prompts = [system + tail for tail in tails] + [system + tails[0]]
    desk = Desk(model, replace(BALANCED, prefill_slice_tokens=48))
    rows = [desk.submit(prompt, max_tokens=20)[0] for prompt in prompts]
    desk.run()
    # The last one's equal prompt is shared to its last token but one.
    assert desk.scheduler.num_prefill_tokens == 120 + 19 + 4 + 29
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 20)


def test_a_sibling_that_comes_a_little_late_shares_what_is_not_read_yet(
    load_tiny: LoadTiny,
) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=32))
    system = prompt_of(200, 7)
    desk.submit([*system, 11, 12], max_tokens=2)
    desk.step(2)
    desk.submit([*system, 21, 22, 23], max_tokens=2)
    desk.run()
    assert desk.scheduler.num_prefill_tokens == 200 + 1 + 2


@pytest.mark.parametrize("how", ["cancelled", "broken"])
def test_siblings_go_on_when_the_one_that_reads_is_gone(
    how: str, faulty_model: LanguageModel, load_tiny: LoadTiny
) -> None:
    system = prompt_of(100, 7)
    system[60] = FAULTY_TOKEN if how == "broken" else system[60]
    desk = Desk(faulty_model, replace(BALANCED, prefill_slice_tokens=32))
    (leader,) = desk.submit([*system, 11, 12], max_tokens=5)
    followers = [desk.submit([*system, 21 + i], max_tokens=5)[0] for i in range(2)]
    desk.step(2)
    if how == "cancelled":
        leader.cancelled = True
        desk.scheduler.cancel(leader.mailbox)
    desk.run()
    for i, row in enumerate(followers):
        if how == "broken":
            assert isinstance(desk.of(row)[-1], FaultNews)
        else:
            assert desk.tokens(row) == alone(load_tiny("llama"), [*system, 21 + i], 5)


@contextmanager
def counting_reads(scheduler: Scheduler) -> Iterator[list[int]]:
    """How many prompts each slice was for."""
    reads: list[int] = []
    pick = scheduler._pick

    def counting(budget_tokens: int) -> list[PromptJob]:
        jobs = pick(budget_tokens)
        reads.append(len(jobs))
        return jobs

    scheduler._pick = counting  # type: ignore[method-assign]
    yield reads


def test_a_prompt_is_read_once_for_all_its_answers(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"))
    prompt = prompt_of(60, 1)
    rows = desk.submit(prompt, num_rows=3, max_tokens=20)
    desk.run()
    assert len({tuple(desk.tokens(row)) for row in rows}) == 1
    single = Desk(load_tiny("llama"))
    (row,) = single.submit(prompt, max_tokens=20)
    single.run()
    assert desk.tokens(rows[0]) == single.tokens(row)


@pytest.mark.parametrize("family", ["llama", "gemma3", "lfm2", "mamba2", "llama4"])
def test_forked_answers_do_not_disturb_each_other(family: str, load_tiny: LoadTiny) -> None:
    prompt = prompt_of(40, 3)
    keys = [(i, i) for i in range(3)]
    desk = Desk(load_tiny(family))
    tokens = {"token_ids": list(prompt), "num_prompt_tokens": len(prompt)}
    rows = [
        make_row(DRAWN, mailbox=object(), key=key, max_tokens=25, **copy.deepcopy(tokens))
        for key in keys
    ]
    desk.scheduler.submit(PromptJob(token_ids=prompt, rows=list(rows)))
    desk.run()
    for row, key in zip(rows, keys, strict=True):
        single = Desk(load_tiny(family))
        (own,) = single.submit(prompt, sampling=DRAWN, key=key, max_tokens=25)
        single.run()
        assert desk.tokens(row) == single.tokens(own)


def test_no_more_rows_run_than_allowed(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, max_running_rows=2))
    rows = [desk.submit(prompt_of(4, i), max_tokens=5)[0] for i in range(5)]
    for _ in range(200):
        if not desk.scheduler.has_work:
            break
        desk.step()
        assert desk.scheduler.num_running <= 2
    assert all(len(desk.tokens(row)) == 5 for row in rows)


def test_a_request_larger_than_the_limit_runs_alone(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, max_running_rows=2))
    first = desk.submit(prompt_of(4, 1), max_tokens=5)[0]
    many = desk.submit(prompt_of(4, 2), num_rows=6, max_tokens=5)
    desk.run()
    assert [len(desk.tokens(row)) for row in (first, *many)] == [5] * 7


def test_what_running_rows_hold_counts_as_theirs(load_tiny: LoadTiny) -> None:
    """Nothing left beside them, and yet they may go on in what they have."""
    model = load_tiny("llama")
    desk = Desk(model, budget=1 << 30)
    first = desk.submit(prompt_of(30, 1), max_tokens=20)[0]
    second = desk.submit(prompt_of(30, 2), max_tokens=20)[0]
    desk.step(3)
    desk.budget = 0
    desk.run()
    assert [len(desk.tokens(row)) for row in (first, second)] == [20, 20]


@pytest.mark.parametrize("family", ["llama", "gemma3", "lfm2", "mamba2"])
def test_rows_that_outgrow_the_memory_take_turns_and_lose_nothing(
    family: str, load_tiny: LoadTiny
) -> None:
    """The newest waits, is read anew with what it had written, and goes on as if nothing was."""
    model = load_tiny(family)
    desk = Desk(model)
    sampling = replace(DRAWN, frequency_penalty=0.5, logit_bias=((3, -100.0),))
    prompts = [prompt_of(30, i) for i in range(3)]
    rows = [desk.submit(p, max_tokens=300, sampling=sampling)[0] for p in prompts]
    most_running = []
    while desk.scheduler.has_work:
        # What two rows may have, and the third not any more.
        held = desk.scheduler.kv_cache_bytes
        desk.budget = max(0, model.kv_cost.batch_bytes([512, 512]) - held)
        desk.step()
        if len(desk.tokens(rows[0])) in range(100, 250):
            most_running.append(desk.scheduler.num_running)
    assert max(most_running) <= 2 or family == "mamba2"  # whose state does not grow
    for row, prompt in zip(rows, prompts, strict=True):
        single = Desk(model)
        (own,) = single.submit(prompt, max_tokens=300, sampling=sampling)
        single.run()
        assert desk.tokens(row) == single.tokens(own)


def test_long_and_short_rows_decode_apart_where_padding_would_outweigh_the_weights(
    load_tiny: LoadTiny,
) -> None:
    model = load_tiny("llama")
    # Weights as heavy as the padding of one short row beside a row of 400 tokens.
    one_padding = model.kv_cost.padding_bytes([10, 400])
    light = replace(model, entry=replace(model.entry, weight_bytes=one_padding))
    lengths = (10, 400, 12, 11, 390, 13)
    prompts = [prompt_of(length, length) for length in lengths]
    desk = Desk(light, replace(BALANCED, decode_share=1e-6))
    rows = [desk.submit(prompt, max_tokens=30)[0] for prompt in prompts]
    sizes = set()
    while desk.scheduler.has_work:
        desk.step()
        sizes.add(tuple(sorted(len(batch) for batch in desk.scheduler._batches)))
    assert (2, 4) in sizes or (3, 3) in sizes
    assert not any(len(size) > 2 for size in sizes)
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 30)


def test_one_request_of_many_prompts_does_not_starve_another(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, max_running_rows=2))
    box = object()
    for i in range(40):
        tokens = {"token_ids": prompt_of(4, i), "num_prompt_tokens": 4, "max_tokens": 3}
        row = make_row(mailbox=box, choice=i, **tokens)
        desk.scheduler.submit(PromptJob(token_ids=row.token_ids[:4], rows=[row]))
    (other,) = desk.submit(prompt_of(4, 99), max_tokens=3)
    for _ in range(25):
        desk.step()
    assert len(desk.tokens(other)) == 3
    assert desk.scheduler.num_waiting >= 25


def test_rows_wait_while_memory_lacks(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    one_row = model.kv_cost.row_bytes(256)
    desk = Desk(model, budget=one_row // 2)  # what is left beside the first
    rows = [desk.submit(prompt_of(30, i), max_tokens=5)[0] for i in range(3)]
    while desk.scheduler.has_work:
        desk.step()
        assert desk.scheduler.num_running <= 1
    assert all(len(desk.tokens(row)) == 5 for row in rows)


def test_kv_cost_is_what_a_row_really_takes(load_tiny: LoadTiny) -> None:
    for family in ("llama", "gemma3", "lfm2", "mamba2"):
        model = load_tiny(family)
        desk = Desk(model)
        desk.submit(prompt_of(100, 1), max_tokens=100)
        while not desk.scheduler.has_work or desk.scheduler.num_running == 0:
            desk.step()
        desk.step(3)
        real = desk.scheduler.kv_cache_bytes
        assert real <= model.kv_cost.row_bytes(100) <= 1.6 * real, family


def test_a_cancelled_row_is_gone_at_the_next_step(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=8))
    (decoding,) = desk.submit(prompt_of(4, 1))
    desk.step(3)
    (reading,) = desk.submit(prompt_of(100, 2))
    desk.step(2)
    (waiting,) = desk.submit(prompt_of(4, 3))
    for row in (decoding, reading, waiting):
        row.cancelled = True
        desk.scheduler.cancel(row.mailbox)
    desk.step()
    assert not desk.scheduler.has_work
    assert desk.scheduler.kv_cache_bytes == 0
    assert not desk.of(waiting)


@pytest.fixture
def faulty_model(load_tiny: LoadTiny) -> LanguageModel:
    model = load_tiny("llama")
    return replace(model, model=Faulty(model.model))


def test_a_prompt_that_breaks_the_model_ends_its_own_request(faulty_model: LanguageModel) -> None:
    desk = Desk(faulty_model)
    (good,) = desk.submit([10, 20, 30], max_tokens=30)
    desk.step(3)
    (bad,) = desk.submit([10, FAULTY_TOKEN, 30], max_tokens=30)
    desk.run()
    (fault,) = [news for news in desk.of(bad) if isinstance(news, FaultNews)]
    assert "no such kernel" in fault.error.message
    assert len(desk.tokens(good)) == 30
    assert desk.scheduler.fault is None


def test_of_prompts_read_together_only_the_one_that_breaks_the_model_fails(
    faulty_model: LanguageModel,
) -> None:
    desk = Desk(faulty_model)
    desk.submit(prompt_of(40, 99), max_tokens=2)
    desk.run()
    prompts = [[10, 20, 30], [10, FAULTY_TOKEN, 30, 40], [11, 22], [12, 23, 34]]
    rows = [desk.submit(prompt, max_tokens=5)[0] for prompt in prompts]
    desk.run()
    assert [len(desk.tokens(row)) for row in rows] == [5, 0, 5, 5]
    assert isinstance(desk.of(rows[1])[-1], FaultNews)


def test_of_rows_that_decode_together_only_the_one_that_breaks_the_model_fails(
    faulty_model: LanguageModel, load_tiny: LoadTiny
) -> None:
    """The step fails for all of them; each goes on by itself, and one fails again."""
    desk = Desk(faulty_model)
    prompts = [[10, 20, 30], [11, FAULTY_TOKEN], [12, 23, 34]]
    first, bad, last = (desk.submit(prompt, max_tokens=20)[0] for prompt in prompts)
    desk.run()
    assert isinstance(desk.of(bad)[-1], FaultNews)
    for row, prompt in ((first, prompts[0]), (last, prompts[2])):
        assert desk.tokens(row) == alone(load_tiny("llama"), prompt, 20)
    assert desk.scheduler.fault == "RuntimeError: no such kernel"


def test_whatever_escapes_ends_the_models_requests_and_the_next_is_served(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even what is no Exception, as the panics of native libraries are."""

    class Panic(BaseException):
        pass

    def panics() -> int:
        raise Panic("no memory")

    desk = Desk(load_tiny("llama"))
    (running,) = desk.submit(prompt_of(5, 1), max_tokens=50)
    desk.step(5)
    (waiting,) = desk.submit(prompt_of(5, 2), max_tokens=50)
    with monkeypatch.context() as patch:
        patch.setattr(desk.scheduler, "_memory_left_bytes", panics)
        desk.step()
    for row in (running, waiting):
        assert isinstance(desk.of(row)[-1], FaultNews)
    assert desk.scheduler.fault == "Panic: no memory"
    (good,) = desk.submit(prompt_of(5, 3), max_tokens=5)
    desk.run()
    assert len(desk.tokens(good)) == 5


def test_a_broken_step_fails_its_rows_and_the_next_request_is_served(
    faulty_model: LanguageModel,
) -> None:
    desk = Desk(faulty_model)
    (bad,) = desk.submit([10, FAULTY_TOKEN], max_tokens=30)  # its last token is fed by decoding
    desk.run()
    assert isinstance(desk.of(bad)[-1], FaultNews)
    assert desk.scheduler.fault == "RuntimeError: no such kernel"
    (good,) = desk.submit([10, 20, 30], max_tokens=30)
    desk.run()
    assert len(desk.tokens(good)) == 30
