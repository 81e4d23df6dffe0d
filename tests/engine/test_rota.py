"""The device's time, shared between models and between decoding and reading."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.core.settings import STRATEGIES
from maxi_mlx.engine import reading as reading_module
from maxi_mlx.engine import rota as rota_module
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import Outbox, TokenNews
from maxi_mlx.engine.prefixes import Prefixes
from maxi_mlx.engine.rota import Rota
from maxi_mlx.engine.row import PromptJob, Row
from maxi_mlx.engine.scheduler import Scheduler
from maxi_mlx.kv_cache.store import PrefixStore
from tests.engine.clock import Clock
from tests.engine.conftest import LoadTiny
from tests.engine.desk import BALANCED, Desk, counting_reads
from tests.engine.test_batch import make_row, prompt_of

SETTINGS = replace(STRATEGIES["balanced"], prefill_slice_tokens=16, prefill_slice_s=0.02)


@pytest.fixture(autouse=True)
def clock_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only where a model takes it, however busy the machine is. What is measured as a
    model is loaded is real: others have the same model."""
    clock = Clock()
    for module in (rota_module, reading_module, sys.modules[__name__]):
        monkeypatch.setattr(module, "time", clock)


class Slow:
    """The real model, made to take a known time: so much a step, so much a token of a prompt."""

    def __init__(self, model: Any, *, step_s: float, fixed_s: float, token_s: float) -> None:
        self._model = model
        self._step_s, self._fixed_s, self._token_s = step_s, fixed_s, token_s
        self.slices: list[int] = []
        self.stepped_s = self.sliced_s = 0.0
        self.layers = model.layers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        num_tokens = inputs.shape[1]
        started = time.perf_counter()
        if num_tokens == 1:
            time.sleep(self._step_s)
            self.stepped_s += time.perf_counter() - started
        else:
            self.slices.append(num_tokens)
            time.sleep(self._fixed_s + self._token_s * num_tokens)
            self.sliced_s += time.perf_counter() - started
        return self._model(inputs, cache=cache)


def slow(
    model: LanguageModel, step_s: float = 0.0, fixed_s: float = 0.0, token_s: float = 0.0
) -> LanguageModel:
    timed = Slow(model.model, step_s=step_s, fixed_s=fixed_s, token_s=token_s)
    measured = ((8, fixed_s + 8 * token_s),) if fixed_s else ()
    return replace(model, model=timed, pass_cost=replace(model.pass_cost, seconds=measured))


def scheduler_of(model: LanguageModel, settings: Any = SETTINGS) -> Scheduler:
    prefixes = Prefixes(PrefixStore(0).open("tiny", model.new_cache), free=lambda _: None)
    return Scheduler(model, settings, memory_left_bytes=lambda: 1 << 40, prefixes=prefixes)


def submit(scheduler: Scheduler, prompt: list[int], max_tokens: int) -> Row:
    row = make_row(
        mailbox=object(),
        token_ids=list(prompt),
        num_prompt_tokens=len(prompt),
        max_tokens=max_tokens,
    )
    scheduler.submit(PromptJob(token_ids=prompt, rows=[row]))
    return row


def read_all(scheduler: Scheduler, rota: Rota, lengths: Sequence[int]) -> None:
    """One after the other, until it knows what a pass costs."""
    for length in lengths:
        submit(scheduler, prompt_of(length, length), 1)
        while scheduler.has_work:
            rota.turn([scheduler])


def with_costly_passes(load_tiny: LoadTiny) -> tuple[Scheduler, Rota, Row]:
    """A pass takes 20 ms and 2 ms a token, a slice 0.16 s at the most; one answer is running."""
    settings = replace(STRATEGIES["balanced"], prefill_slice_s=0.04)
    model = slow(load_tiny("llama"), step_s=0.02, fixed_s=0.02, token_s=0.002)
    scheduler, rota = scheduler_of(model, settings), Rota(settings)
    read_all(scheduler, rota, (20, 40, 60, 20, 40, 60))
    running = submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(5):
        rota.turn([scheduler])
    return scheduler, rota, running


def num_tokens(outbox: Outbox) -> int:
    return sum(isinstance(news, TokenNews) for _, news in outbox)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_running_answers_keep_their_share_while_a_prompt_is_read(
    share: float, load_tiny: LoadTiny
) -> None:
    """Steps of 4 ms, slices of 12 ms: the share shows in how many steps follow a slice."""
    settings = replace(SETTINGS, decode_share=share)
    model = slow(load_tiny("llama"), step_s=0.004, fixed_s=0.012)
    scheduler, rota = scheduler_of(model, settings), Rota(settings)
    submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(3):
        rota.turn([scheduler])
    submit(scheduler, prompt_of(200, 2), 1)
    num_slices = len(model.model.slices)
    stepped_s, sliced_s = model.model.stepped_s, model.model.sliced_s
    for _ in range(400):
        rota.turn([scheduler])
        if not scheduler.num_wanting:
            break
    assert len(model.model.slices) - num_slices >= 10
    decoding_s, reading_s = model.model.stepped_s - stepped_s, model.model.sliced_s - sliced_s
    found = decoding_s / (decoding_s + reading_s)
    assert found == pytest.approx(share, abs=0.04)


def test_tokens_of_two_steps_never_leave_together(load_tiny: LoadTiny) -> None:
    """However many steps a slice is followed by: the last of them is waited for in its own turn."""
    settings = replace(SETTINGS, decode_share=0.7)
    model = slow(load_tiny("llama"), step_s=0.002, fixed_s=0.006)
    scheduler, rota = scheduler_of(model, settings), Rota(settings)
    submit(scheduler, prompt_of(4, 1), 10_000)
    submit(scheduler, prompt_of(200, 2), 1)
    tokens_by_turn = []
    while scheduler.num_wanting or not tokens_by_turn:
        tokens_by_turn.append(num_tokens(rota.turn([scheduler])))
    assert sum(tokens_by_turn) >= 20
    assert max(tokens_by_turn) == 1


@pytest.mark.parametrize(("num_tokens_read", "has_a_step_between"), [(200, True), (10, False)])
def test_a_long_prompts_row_joins_others_in_a_turn_after_its_last_slice(
    num_tokens_read: int, has_a_step_between: bool, load_tiny: LoadTiny
) -> None:
    """Its cache is copied then, which takes as long as a slice; of one slice, it takes nothing."""
    model = slow(load_tiny("llama"), step_s=0.002)
    scheduler, rota = scheduler_of(model), Rota(SETTINGS)
    submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(3):
        rota.turn([scheduler])
    submit(scheduler, prompt_of(num_tokens_read, 2), 10_000)
    num_slices, tokens_since_slice = len(model.model.slices), 0
    while scheduler.num_decoding < 2:
        num_left = num_tokens(rota.turn([scheduler]))
        is_slice = len(model.model.slices) > num_slices
        num_slices = len(model.model.slices)
        tokens_since_slice = 0 if is_slice else tokens_since_slice + num_left
    assert (tokens_since_slice >= 1) is has_a_step_between


def test_a_prompt_of_one_model_leaves_another_models_answer_its_share(
    load_tiny: LoadTiny,
) -> None:
    reader = scheduler_of(slow(load_tiny("llama"), fixed_s=0.012))
    writer = scheduler_of(slow(load_tiny("qwen3"), step_s=0.004))
    rota = Rota(SETTINGS)
    submit(writer, prompt_of(4, 1), 10_000)
    for _ in range(3):
        rota.turn([reader, writer])
    submit(reader, prompt_of(400, 2), 1)
    gaps, last = [], time.perf_counter()
    while True:
        outbox = rota.turn([reader, writer])
        if num_tokens(outbox):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now
        if not reader.has_work:
            break
    assert len(gaps) >= 20
    # A slice, and not the half second that a prompt may take while nobody decodes.
    assert sorted(gaps)[int(len(gaps) * 0.9)] <= 0.1


@pytest.mark.parametrize(
    ("num_prompts", "num_tokens", "least", "most"),
    [(1, 240, 6, 20), (6, 40, 1, 3), (2, 400, 4, 4)],
    ids=["one", "six that share", "two that can't share"],
)
def test_short_prompts_that_wait_together_share_slices_worth_their_fixed_cost(
    num_prompts: int, num_tokens: int, least: int, most: int, load_tiny: LoadTiny
) -> None:
    """A pass takes 20 ms and half a millisecond a token: of a slice that a step of 4 ms pays for,
    all is fixed cost. Prompts that can't share get such slices all the same."""
    settings = replace(STRATEGIES["balanced"], decode_share=0.5)
    model = slow(load_tiny("llama"), step_s=0.004, fixed_s=0.02, token_s=0.0005)
    scheduler, rota = scheduler_of(model, settings), Rota(settings)
    read_all(scheduler, rota, (20, 40, 80, 20, 40, 80, 30, 60, 100))
    running = submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(5):
        rota.turn([scheduler])
    before = len(model.model.slices)
    rows = [submit(scheduler, prompt_of(num_tokens, 10 + i), 9) for i in range(num_prompts)]
    while not all(row.num_generated for row in rows):
        rota.turn([scheduler])
    taken = model.model.slices[before:]
    assert least <= len(taken) <= most
    assert running.num_generated >= len(taken)


def test_a_short_prompts_end_is_read_with_the_slice_before_it(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of prompts of 76, a slice of 66 would leave ten, which cost less than another pass."""
    scheduler, rota, running = with_costly_passes(load_tiny)
    model = scheduler.model
    before = len(model.model.slices)
    monkeypatch.setattr(scheduler.reading._slice_size, "tokens_for", lambda *_, **__: 66)
    rows = [submit(scheduler, prompt_of(77, 10 + i), 9) for i in range(6)]
    while not all(row.num_generated for row in rows):
        rota.turn([scheduler])
    assert model.model.slices[before:] == [76] * 6  # the last, too, which is alone by then
    assert running.num_generated >= 5
    # One that comes alone has slices as answers like them.
    before = len(model.model.slices)
    alone = submit(scheduler, prompt_of(77, 20), 9)
    while not alone.num_generated:
        rota.turn([scheduler])
    assert model.model.slices[before:] == [66, 10]


def test_slices_are_stretched_no_longer_than_several_short_prompts_wait(
    load_tiny: LoadTiny,
) -> None:
    """Beside a long prompt, too: short ones that come one by one are no crowd."""
    scheduler, rota, _ = with_costly_passes(load_tiny)
    submit(scheduler, prompt_of(450, 2), 9)
    rows = [submit(scheduler, prompt_of(60, 10 + i), 9) for i in range(3)]
    while not all(row.num_generated for row in rows):
        rota.turn([scheduler])
        assert scheduler.num_wanting == 1 or scheduler.reading.worthwhile_slice_s > 0
    for i in range(3):
        row = submit(scheduler, prompt_of(60, 20 + i), 9)
        assert scheduler.reading.worthwhile_slice_s == 0
        while not row.num_generated:
            rota.turn([scheduler])
            assert scheduler.reading.worthwhile_slice_s == 0


def test_short_prompts_share_a_slice_that_is_a_little_too_small(load_tiny: LoadTiny) -> None:
    """A slice has 70 tokens; two prompts of 41 are read sooner in one of 82 than
    each by itself."""
    scheduler, rota, _ = with_costly_passes(load_tiny)
    with counting_reads(scheduler) as reads:
        rows = [submit(scheduler, prompt_of(42, 10 + i), 9) for i in range(6)]
        while not all(row.num_generated for row in rows):
            rota.turn([scheduler])
    assert reads == [2, 2, 2]


@pytest.mark.parametrize("bound", ["tokens", "memory"])
def test_no_prompts_end_is_worth_more_than_a_slice_may_have(
    bound: str, load_tiny: LoadTiny
) -> None:
    """As above, but 70 tokens are all that the settings, or the memory, allow."""
    settings = replace(
        STRATEGIES["balanced"],
        prefill_slice_s=0.05,
        prefill_slice_tokens=70 if bound == "tokens" else 1024,
    )
    model = slow(load_tiny("llama"), step_s=0.02, fixed_s=0.02, token_s=0.002)
    cost = replace(
        model.pass_cost, row_bytes=0, slice_bytes=0, token_bytes=10**9, pair_bytes=0, scan_bytes=0
    )
    model = replace(model, pass_cost=cost)
    scheduler, rota = scheduler_of(model, settings), Rota(settings)
    scheduler._memory.left_bytes = lambda: (
        scheduler.promised_bytes + 10**9 * (70 if bound == "memory" else 1024)
    )
    submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(5):
        rota.turn([scheduler])
    rows = [submit(scheduler, prompt_of(77, 10 + i), 9) for i in range(6)]
    while not all(row.num_generated for row in rows):
        rota.turn([scheduler])
    assert 60 <= max(model.model.slices) <= 70
    with counting_reads(scheduler) as reads:  # nor is another prompt
        rows = [submit(scheduler, prompt_of(42, 20 + i), 9) for i in range(6)]
        while not all(row.num_generated for row in rows):
            rota.turn([scheduler])
    assert reads == [1] * 6


def test_prompts_alike_are_read_one_after_the_other(load_tiny: LoadTiny) -> None:
    """And not all half: the first of them would wait as long as the last."""
    model = slow(load_tiny("llama"), step_s=0.002, fixed_s=0.002, token_s=0.001)
    scheduler, rota = scheduler_of(model), Rota(SETTINGS)
    submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(3):
        rota.turn([scheduler])
    rows = [submit(scheduler, prompt_of(120, 10 + i), 9) for i in range(6)]
    begun = []
    while not all(row.num_generated for row in rows):
        rota.turn([scheduler])
        begun.append(sum(job.num_processed > 0 for job in scheduler.reading.jobs))
    assert len(begun) > 12
    assert max(begun) <= 2  # one, and for a moment one that is read


def test_a_short_prompt_does_not_wait_for_all_that_were_passed_over(load_tiny: LoadTiny) -> None:
    desk = Desk(load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=16))
    for i in range(8):
        desk.submit(prompt_of(200, 100 + i), max_tokens=2)
    num_slices = []
    for i in range(20):
        (short,) = desk.submit(prompt_of(10, i), max_tokens=1)
        with counting_reads(desk.scheduler) as reads:
            while not desk.tokens(short):
                desk.step()
        num_slices.append(len(reads))
    assert max(num_slices) <= 3  # its own, and one for others, or two where its step comes late


def test_prompts_of_two_models_are_read_in_turn(load_tiny: LoadTiny) -> None:
    models = [slow(load_tiny("llama")), slow(load_tiny("qwen3"))]
    schedulers, rota = [scheduler_of(model) for model in models], Rota(SETTINGS)
    for scheduler in schedulers:
        submit(scheduler, prompt_of(100, 1), 1)
    for _ in range(6):
        rota.turn(schedulers)
    assert [len(model.model.slices) for model in models] == [3, 3]


@pytest.mark.slow
def test_slices_of_a_slow_model_do_not_shrink_to_nothing(load_tiny: LoadTiny) -> None:
    """A pass of 60 ms however few its tokens are, and 50 ms allowed: ever smaller slices would take
    as long each, and there would be ever more of them."""
    settings = replace(STRATEGIES["latency"])
    model = slow(load_tiny("llama"), step_s=0.001, fixed_s=0.06, token_s=0.0005)
    scheduler, rota = scheduler_of(model, settings), Rota(settings)
    submit(scheduler, prompt_of(4, 1), 10_000)
    for _ in range(3):
        rota.turn([scheduler])
    late = submit(scheduler, prompt_of(400, 2), 1)
    while late.num_generated == 0:
        rota.turn([scheduler])
    assert len(model.model.slices) <= 10
