"""Prompts that begin as others did: read once, and nothing else changes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from maxi_mlx.engine.admission import message_borders
from maxi_mlx.engine.mailbox import PrefillNews
from maxi_mlx.engine.row import PromptJob, Row
from tests.engine.conftest import LoadTiny
from tests.engine.desk import BALANCED, Desk, counting_reads
from tests.engine.test_batch import DRAWN, FAMILIES, alone, make_row, prompt_of

MEGABYTES = 1 << 20


def read_tokens(desk: Desk) -> int:
    """Prompt tokens computed since the last time it was asked."""
    before = getattr(desk, "seen", 0)
    desk.seen = desk.scheduler.reading.num_prefill_tokens  # type: ignore[attr-defined]
    return desk.scheduler.reading.num_prefill_tokens - before


def cached_tokens(desk: Desk, row: Row) -> int:
    news = [news for news in desk.of(row) if isinstance(news, PrefillNews)]
    return news[0].processed_tokens


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, "llama4"])
def test_ten_turns_read_each_turn_once_and_answer_as_without(
    family: str, load_tiny: LoadTiny
) -> None:
    model = load_tiny(family)
    desk = Desk(model, cache_bytes=64 * MEGABYTES)
    text: list[int] = prompt_of(40, 7)
    num_new = len(text)
    for turn in range(10):
        (row,) = desk.submit(text, max_tokens=12)
        desk.run()
        answer = desk.tokens(row)
        assert answer == alone(model, text, 12)
        user = prompt_of(9, 100 + turn)
        text = [*text, *answer, *user]
        num_new += len(user) + 1  # the answer's last token was drawn, and never read
    assert read_tokens(desk) <= num_new
    stats = desk.store.stats()
    assert stats.num_tokens_saved > 500
    assert stats.num_hits + stats.num_partial_hits == 9


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, "llama4"])
def test_a_template_that_rewrites_answers_goes_on_from_a_message_border(
    family: str, load_tiny: LoadTiny
) -> None:
    """The answer comes back without its thoughts: the prompt before it is not read again."""
    model = load_tiny(family)
    (end,) = list(model.end_ids)[:1]
    system = [*prompt_of(100, 1), end]
    first = [*system, *prompt_of(60, 2), end, *prompt_of(2, 5)]
    desk = Desk(model, cache_bytes=64 * MEGABYTES)
    borders = message_borders(first, model)
    assert borders == ((101, 162) if model.keeps_states else ())

    def ask(prompt: list[int]) -> Row:
        row = make_row(
            mailbox=object(), token_ids=list(prompt), num_prompt_tokens=len(prompt), max_tokens=8
        )
        job = PromptJob(token_ids=prompt, rows=[row], borders=message_borders(prompt, model))
        desk.scheduler.submit(job)
        desk.run()
        assert desk.tokens(row) == alone(model, prompt, 8)
        return row

    ask(first)
    rewritten = [*first[:-2], *prompt_of(33, 3)]
    assert cached_tokens(desk, ask(rewritten)) == len(first) - 2
    other_user = [*system, *prompt_of(60, 4), end, *prompt_of(2, 5)]
    assert cached_tokens(desk, ask(other_user)) == len(system)


def test_the_same_prompt_again_leaves_one_token_to_run(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), cache_bytes=MEGABYTES)
    prompt = prompt_of(50, 1)
    rows = []
    for _ in range(2):
        rows += desk.submit(prompt, max_tokens=5)
        desk.run()
    assert desk.tokens(rows[0]) == desk.tokens(rows[1])
    assert [cached_tokens(desk, row) for row in rows] == [0, 49]


def test_seeded_draws_are_the_same_after_a_hit(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("qwen3"), cache_bytes=MEGABYTES)
    prompt = prompt_of(60, 3)
    answers = []
    for _ in range(2):
        (row,) = desk.submit(prompt, max_tokens=20, sampling=replace(DRAWN, seed=5))
        desk.run()
        answers.append(desk.tokens(row))
    assert answers[0] == answers[1]
    assert cached_tokens(desk, row) == 59


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gemma3", "lfm2", "mamba2"])
def test_a_prompt_in_company_is_kept_as_if_alone(family: str, load_tiny: LoadTiny) -> None:
    """Its cache comes out of a batch with padding; the next turn must not see any of it."""
    model = load_tiny(family)
    desk = Desk(model, cache_bytes=64 * MEGABYTES)
    prompts = [prompt_of(length, length) for length in (20, 33, 90, 17)]
    rows = [desk.submit(prompt, max_tokens=8 + index)[0] for index, prompt in enumerate(prompts)]
    desk.run()
    for row, prompt in zip(rows, prompts, strict=True):
        again = [*prompt, *desk.tokens(row), *prompt_of(5, 1)]
        (next_row,) = desk.submit(again, max_tokens=10)
        desk.run()
        assert desk.tokens(next_row) == alone(model, again, 10)
        assert cached_tokens(desk, next_row) >= len(again) - 6


def test_a_client_that_left_finds_what_was_read(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    settings = replace(BALANCED, prefill_slice_tokens=32)
    desk = Desk(model, settings, cache_bytes=MEGABYTES)
    desk.has_slices_of(32)
    prompt = prompt_of(300, 2)
    (row,) = desk.submit(prompt, max_tokens=5)
    desk.step(4)
    desk.scheduler.cancel(row.mailbox)
    row.cancelled = True
    desk.run()
    (again,) = desk.submit(prompt, max_tokens=5)
    desk.run()
    assert cached_tokens(desk, again) == 4 * 32
    assert desk.tokens(again) == alone(model, prompt, 5)


def test_what_opts_out_neither_takes_nor_leaves(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), cache_bytes=MEGABYTES)
    prompt = prompt_of(50, 1)
    for uses_cache, cached in ((False, 0), (True, 0), (False, 0), (True, 49)):
        (row,) = desk.submit(prompt, max_tokens=3, uses_cache=uses_cache)
        desk.run()
        assert cached_tokens(desk, row) == cached


def test_short_prompts_that_begin_alike_are_read_together(load_tiny: LoadTiny) -> None:
    """A template's first words, known from before, are not worth a slice for each prompt."""
    model = load_tiny("llama")
    desk = Desk(model, cache_bytes=MEGABYTES)
    head = prompt_of(20, 1)
    desk.has_slices_of(1024)
    for seed in (2, 3):  # so that the head is stored
        desk.submit([*head, *prompt_of(60, seed)], max_tokens=2)
        desk.run()
    prompts = [[*head, *prompt_of(30, seed)] for seed in range(10, 16)]
    with counting_reads(desk.scheduler) as reads:
        rows = [desk.submit(prompt, max_tokens=4)[0] for prompt in prompts]
        desk.run()
    assert reads == [6]
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 4)


def test_stored_prefixes_make_way_for_rows(load_tiny: LoadTiny) -> None:
    """Memory for one more row: the store gives up what it has, and no row waits."""
    model = load_tiny("llama")
    desk = Desk(model, cache_bytes=64 * MEGABYTES)
    for seed in range(10):
        desk.submit(prompt_of(200, seed), max_tokens=4)
        desk.run()
    stored = desk.store.num_bytes
    assert stored > 0
    desk.budget = 0
    rows = [desk.submit(prompt_of(30, 50 + i), max_tokens=4)[0] for i in range(2)]
    desk.step(2)
    assert desk.scheduler.num_running == 2
    assert desk.store.num_bytes < stored
    desk.run()
    assert all(len(desk.tokens(row)) == 4 for row in rows)


def test_a_store_that_fails_costs_the_cache_and_not_the_answer(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_tiny("llama")
    desk = Desk(model, cache_bytes=MEGABYTES)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of the store")

    for method in ("find", "fetch", "keep"):
        monkeypatch.setattr(desk.scheduler.prefixes.store, method, broken)
        (row,) = desk.submit(prompt_of(40, 1), max_tokens=5)
        desk.run()
        assert desk.tokens(row) == alone(model, prompt_of(40, 1), 5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "llama-4bit", "gemma3", "lfm2", "mamba2"])
def test_random_histories_at_a_tiny_budget_answer_as_without(
    family: str, load_tiny: LoadTiny
) -> None:
    """Extended, branched and edited conversations, several at once, and room for few of them."""
    model = load_tiny(family)
    rng = random.Random(family)
    one = model.kv_cost.row_bytes(256)
    desk = Desk(model, cache_bytes=3 * one)
    histories = [prompt_of(30, seed) for seed in range(3)]
    for _ in range(40):
        rows = []
        for _ in range(rng.randint(1, 4)):
            text = list(rng.choice(histories))
            if rng.random() < 0.3:  # an edit
                text = text[: rng.randrange(1, len(text))]
            text += prompt_of(rng.randint(1, 20), rng.randrange(1000))
            rows.append((text, desk.submit(text, max_tokens=rng.randint(1, 10))[0]))
        desk.run()
        for text, row in rows:
            answer = desk.tokens(row)
            assert answer == alone(model, text, len(answer))
            if len(text) < 220:
                histories.append([*text, *answer])
        histories = histories[-8:]
        assert desk.store.num_bytes <= 3 * one
    assert desk.store.stats().num_evictions > 0
    assert desk.store.stats().num_tokens_saved > 0
