"""The device is shared fairly: whose turn it is, who waits, and for how long."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from maxi_mlx.engine.kv_cost import KVCost, Part
from maxi_mlx.engine.mailbox import PrefillNews, TokenNews
from maxi_mlx.engine.pass_cost import PassCost
from maxi_mlx.engine.row import PromptJob
from tests.engine.conftest import LoadTiny
from tests.engine.desk import BALANCED, Desk, counting_reads
from tests.engine.test_batch import DRAWN, FAMILIES, alone, make_row, prompt_of


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


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_short_prompts_share_a_slice_and_equal_each_alone(family: str, load_tiny: LoadTiny) -> None:
    """Lengths around the window of 16, and prompts of one token, whose caches are empty."""
    model = load_tiny(family)
    lengths = (1, 2, 15, 16, 17, 18, 33, 40, 1, 31)
    prompts = [prompt_of(length, seed) for seed, length in enumerate(lengths)]
    desk = Desk(model)
    desk.has_slices_of(1024)
    with counting_reads(desk.scheduler) as reads:
        rows = [desk.submit(prompt, max_tokens=24)[0] for prompt in prompts]
        desk.run()
    assert reads == [10]
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 24)


def test_padding_is_bounded(load_tiny: LoadTiny) -> None:
    """A long prompt is not padded out to by short ones beyond the slice's tokens."""
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=128, decode_share=1e-6))
    desk.has_slices_of(128)
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


@pytest.mark.slow
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
    assert desk.scheduler.reading.num_prefill_tokens == 120 + 19 + 4 + 29
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
    assert desk.scheduler.reading.num_prefill_tokens == 200 + 1 + 2


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_a_sibling_that_comes_when_all_is_read_shares_it_too(
    family: str, load_tiny: LoadTiny
) -> None:
    """The first one's row joins the running one in the turn after: it reads no further."""
    model = load_tiny(family)
    desk = Desk(model, replace(BALANCED, prefill_slice_tokens=64))
    desk.submit(prompt_of(5, 1), max_tokens=300)
    desk.step(4)
    prompt = prompt_of(200, 2)
    (first,) = desk.submit(prompt, max_tokens=4)
    while not desk.scheduler.reading.done():
        desk.step()
    num_read = desk.scheduler.reading.num_prefill_tokens
    (second,) = desk.submit(prompt, max_tokens=4)
    (longer,) = desk.submit([*prompt, 7, 8], max_tokens=4)
    desk.run()
    assert desk.scheduler.reading.num_prefill_tokens == num_read + 2
    assert desk.tokens(first) == desk.tokens(second) == alone(model, prompt, 4)
    assert desk.tokens(longer) == alone(model, [*prompt, 7, 8], 4)


def test_a_prompt_that_was_read_before_starts_at_once(load_tiny: LoadTiny) -> None:
    """Its slice takes no time, so that there is time to copy its cache to the running ones."""
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=64), cache_bytes=1 << 24)
    prompt = prompt_of(200, 2)
    desk.submit(prompt, max_tokens=4)
    desk.run()
    desk.submit(prompt_of(5, 1), max_tokens=300)
    desk.step(4)
    desk.submit(prompt, max_tokens=4)
    desk.scheduler.prepare([])
    desk.scheduler.read(1.0, desk.news)
    assert desk.scheduler.num_decoding == 2


def test_prompts_that_leave_before_they_start_cost_no_slice(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=64))
    (runner,) = desk.submit(prompt_of(5, 1), max_tokens=300)
    desk.step(4)
    (late,) = desk.submit(prompt_of(200, 2), max_tokens=4)
    while not desk.scheduler.reading.done():
        desk.step()
    desk.scheduler.cancel(late.mailbox)
    desk.step(2)
    (other,) = desk.submit(prompt_of(10, 3), max_tokens=4)
    with counting_reads(desk.scheduler) as reads:
        desk.scheduler.prepare([])
        desk.scheduler.read(1.0, desk.news)
        assert reads == [1]
    runner.cancelled = True
    desk.run()
    assert desk.tokens(late) == []
    assert len(desk.tokens(other)) == 4


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    ["llama", *(pytest.param(f, marks=pytest.mark.slow) for f in ("gemma3", "lfm2", "mamba2"))],
)
def test_rows_that_outgrow_the_memory_take_turns_and_lose_nothing(
    family: str, load_tiny: LoadTiny
) -> None:
    """The newest waits, is read anew with what it had written, and goes on as if nothing was."""
    model = replace(load_tiny(family), pass_cost=PassCost(0, 0, 0, 0, 0, ()))
    desk = Desk(model)
    sampling = replace(DRAWN, frequency_penalty=0.5, logit_bias=((3, -100.0),))
    prompts = [prompt_of(30, i) for i in range(3)]
    rows = [desk.submit(p, max_tokens=300, sampling=sampling)[0] for p in prompts]
    most_running = []
    while desk.scheduler.has_work:
        # What two rows may have, and the third not any more.
        held = desk.scheduler.kv_cache_bytes
        two_bytes = model.kv_cost.batch_bytes([512, 512])
        two_bytes += model.kv_cost.copy_bytes(two_bytes)
        desk.budget = max(0, two_bytes - held)
        desk.step()
        if len(desk.tokens(rows[0])) in range(100, 250):
            most_running.append(desk.scheduler.num_running)
    assert max(most_running) == 2 or family == "mamba2"  # whose state does not grow
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
    desk.has_slices_of(1024)
    rows = [desk.submit(prompt, max_tokens=30)[0] for prompt in prompts]
    sizes = set()
    while desk.scheduler.has_work:
        desk.step()
        sizes.add(tuple(sorted(len(batch) for batch in desk.scheduler._batches)))
    assert (2, 4) in sizes or (3, 3) in sizes
    assert not any(len(size) > 2 for size in sizes)
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 30)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_kept_apart_by_length_join_once_the_padding_is_worth_it(
    family: str, load_tiny: LoadTiny
) -> None:
    model = load_tiny(family)
    cost = KVCost((Part(1, 0, None),))
    entry = replace(model.entry, weight_bytes=cost.padding_bytes([10, 400]))
    light = replace(model, entry=entry, kv_cost=cost)
    wishes = {10: 150, 11: 20, 300: 150, 400: 150}  # length of prompt: max_tokens
    prompts = {length: prompt_of(length, length) for length in wishes}
    desk = Desk(light, replace(BALANCED, decode_share=1e-6))
    desk.has_slices_of(1024)
    rows = {length: desk.submit(prompts[length], max_tokens=wishes[length])[0] for length in wishes}
    sizes = []
    while desk.scheduler.has_work:
        desk.step()
        sizes.append(sorted(len(batch) for batch in desk.scheduler._batches))
    assert [2, 2] in sizes
    assert [3] in sizes  # the short one that is left and the two long ones
    for length, row in rows.items():
        assert desk.tokens(row) == alone(model, prompts[length], wishes[length])


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


@pytest.mark.parametrize(
    ("weight_bytes", "has_turn_of_its_own"), [(100_000, True), (100_000_000, False)]
)
def test_a_joins_copy_has_a_turn_of_its_own_where_it_takes_long(
    weight_bytes: int, has_turn_of_its_own: bool, load_tiny: LoadTiny
) -> None:
    model = load_tiny("llama")
    heavy = replace(model, entry=replace(model.entry, weight_bytes=weight_bytes))
    desk = Desk(heavy, replace(BALANCED, prefill_slice_tokens=32))
    desk.submit(prompt_of(4, 1), max_tokens=1000)
    desk.step(3)
    desk.submit(prompt_of(60, 2), max_tokens=1000)
    desk.step()
    while any(job.num_remaining for job in desk.scheduler.reading.jobs):
        desk.step()
    assert (desk.scheduler.num_decoding == 1) is has_turn_of_its_own


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
