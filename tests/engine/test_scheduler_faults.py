"""What one request breaks stays its own, wherever it breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.engine import batch_cache
from maxi_mlx.engine.kv_cost import KVCost, Part
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import FaultNews
from maxi_mlx.engine.sampling import BatchSampler
from tests.engine.conftest import LoadTiny
from tests.engine.desk import BALANCED, Desk
from tests.engine.test_batch import DRAWN, alone, prompt_of

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
        patch.setattr(desk.scheduler._memory, "left_bytes", panics)
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


class Breaking:
    """Merging layers fails from the second group on, as often as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, num_failing: int) -> None:
        self.num_failing = num_failing
        self._num_calls = 0
        self._real = batch_cache._joined
        monkeypatch.setattr(batch_cache, "COPY_BYTES", 1)  # a group a layer
        monkeypatch.setattr(batch_cache, "_joined", self)

    def __call__(self, *layers: Any, is_merged: bool) -> Any:
        self._num_calls += 1
        if self._num_calls % 2 == 0 and self.num_failing:
            self.num_failing -= 1
            raise RuntimeError("[malloc] no memory for a layer")
        return self._real(*layers, is_merged=is_merged)


@pytest.mark.parametrize("num_running", [1, 2])
def test_a_join_that_fails_half_way_ends_the_newcomer_alone(
    num_running: int, load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch's caches are lost with it: its rows are read anew, and go on as if nothing was."""
    model = load_tiny("llama")
    desk = Desk(model)
    prompts = [prompt_of(20 + i, i) for i in range(num_running)]
    rows = [desk.submit(prompt, max_tokens=30)[0] for prompt in prompts]
    while desk.scheduler.num_decoding < num_running:
        desk.step()
    breaking = Breaking(monkeypatch, 1)
    (late,) = desk.submit(prompt_of(9, 9), max_tokens=30)
    desk.run()
    assert not breaking.num_failing
    assert isinstance(desk.of(late)[-1], FaultNews)
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 30)


def test_answers_that_run_outlive_newcomers_for_whom_there_is_never_memory(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for four rows in a batch, whatever was reckoned: no answer ends that had begun."""
    real = batch_cache._joined
    monkeypatch.setattr(batch_cache, "COPY_BYTES", 1)
    calls: list[int] = []

    def joined(mine: Any, theirs: list[Any], *, is_merged: bool) -> Any:
        calls.append(len(theirs) + (0 if mine is None else mine.keys.shape[0]))
        if calls[-1] > 4 and len(calls) % 2 == 0:
            raise RuntimeError("[malloc] no memory for a layer")
        return real(mine, theirs, is_merged=is_merged)

    monkeypatch.setattr(batch_cache, "_joined", joined)
    model = load_tiny("llama")
    desk = Desk(model)
    prompts = [prompt_of(40 + i, i) for i in range(4)]
    rows = [desk.submit(prompt, max_tokens=60)[0] for prompt in prompts]
    while not all(desk.tokens(row) for row in rows):
        assert desk.scheduler.has_work
        desk.step()
    late = [desk.submit(prompt_of(20 + i, 50 + i), max_tokens=60)[0] for i in range(2)]
    desk.run()
    assert max(calls) > 4
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 60)
    for row in late:
        assert len(desk.tokens(row)) == 60 or isinstance(desk.of(row)[-1], FaultNews)


@pytest.mark.parametrize("num_tokens", [1, 20])
def test_prompts_whose_joins_always_fail_come_to_an_end(
    num_tokens: int, load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*layers: Any, is_merged: bool) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(batch_cache, "_joined", broken)
    desk = Desk(load_tiny("llama"))
    rows = [desk.submit(prompt_of(num_tokens, i), max_tokens=5)[0] for i in range(3)]
    desk.run()
    for row in rows:
        assert len(desk.tokens(row)) == 5 or isinstance(desk.of(row)[-1], FaultNews)


def test_batches_that_can_not_be_united_go_on(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_tiny("llama")
    cost = KVCost((Part(1, 0, None),))
    entry = replace(model.entry, weight_bytes=cost.padding_bytes([10, 400]))
    light = replace(model, entry=entry, kv_cost=cost)
    desk = Desk(light, replace(BALANCED, decode_share=1e-6))
    wishes = {10: 150, 11: 5, 300: 150, 400: 150}
    prompts = {length: prompt_of(length, length) for length in wishes}
    rows = {length: desk.submit(prompts[length], max_tokens=wishes[length])[0] for length in wishes}
    while not (len(desk.scheduler._batches) == 2 and desk.tokens(rows[400])):
        assert desk.scheduler.has_work
        desk.step()
    breaking = Breaking(monkeypatch, 1)
    desk.run()
    assert not breaking.num_failing
    for length, row in rows.items():
        assert desk.tokens(row) == alone(model, prompts[length], wishes[length])


def test_a_sampler_that_fails_for_one_row_ends_that_row_alone(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_tiny("llama")
    desk = Desk(model)
    good = desk.submit([10, 20, 30], max_tokens=20)[0]
    bad = desk.submit([11, 22], max_tokens=20, sampling=replace(DRAWN, seed=666))[0]
    last = desk.submit([12, 23, 34], max_tokens=20)[0]
    draw = BatchSampler.draw

    def fails(self: BatchSampler, logits: mx.array, *more: Any) -> mx.array:
        if any(bad in batch.rows and batch._sampler is self for batch in desk.scheduler._batches):
            raise RuntimeError("no such distribution")
        return draw(self, logits, *more)

    monkeypatch.setattr(BatchSampler, "draw", fails)
    desk.run()
    (fault,) = [news for news in desk.of(bad) if isinstance(news, FaultNews)]
    assert "no such distribution" in fault.error.message
    for row, prompt in ((good, [10, 20, 30]), (last, [12, 23, 34])):
        assert desk.tokens(row) == alone(model, prompt, 20)
