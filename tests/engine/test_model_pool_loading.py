"""Loading in pieces: others' answers go on, files are read ahead, and what fails leaves nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import save_file

from maxi_mlx.catalog.model_files import BrokenFile
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import TextDelta
from maxi_mlx.engine import device, loading
from maxi_mlx.engine.loading import Loading, LoadingWork, Steps, finish
from maxi_mlx.engine.read_ahead import ReadAhead, evaluate_behind, places_of
from tests.engine.asking import ask, make_request
from tests.engine.conftest import entry_for, make_engine

PROMPT = [20, 30, 40]

TinyModel = Callable[[str], Path]


async def test_answers_go_on_while_a_model_loads(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load of some 60 pieces: the text of another model comes between them."""
    monkeypatch.setattr(loading, "_PIECE_BYTES", 10_000)
    async with make_engine([tiny_model(family) for family in ("llama", "qwen3")]) as engine:
        await ask(engine, make_request(PROMPT))
        num_between = 0
        load: asyncio.Task[Any] | None = None
        async for event in engine.generate(make_request(PROMPT, max_tokens=400)):
            if isinstance(event, TextDelta):
                if load is None:
                    load = asyncio.create_task(engine.load("tiny-qwen3"))
                num_between += not load.done()
        assert load is not None
        await load
        assert num_between >= 5


# -- pieces ----------------------------------------------------------------------------------


def work_of(steps: Steps[Any], tiny_model: TinyModel) -> LoadingWork[Any]:
    return LoadingWork(
        Loading(entry_for(tiny_model("llama"))), steps, wake=lambda function: function()
    )


def read(work: LoadingWork[Any], slice_s: float = 0.0) -> None:
    work.guarded(lambda outbox: work.read(slice_s, outbox), [])


def test_a_slice_ends_at_the_first_pause_after_its_time(tiny_model: TinyModel) -> None:
    done: list[int] = []

    def steps() -> Steps[str]:
        for number in range(10):
            done.append(number)
            time.sleep(0.01)
            yield None
        return "loaded"

    work = work_of(steps(), tiny_model)
    read(work)
    assert done == [0]
    read(work, 0.025)
    assert 2 <= len(done) <= 4
    read(work, 10)
    assert work.is_done
    assert work.loaded == "loaded"


def test_a_load_that_waits_for_a_thread_wants_nothing_of_the_device(tiny_model: TinyModel) -> None:
    future: Future[int] = Future()

    def steps() -> Steps[int]:
        return (yield from loading.result_of(future)) + 1

    work = work_of(steps(), tiny_model)
    assert work.num_wanting == 1
    read(work)
    assert (work.num_wanting, work.has_work, work.is_done) == (0, False, False)
    future.set_result(4)
    assert work.num_wanting == 1
    read(work)
    assert work.loaded == 5


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_a_load_that_fails_is_closed_and_tells_why(
    kind: type[BaseException], tiny_model: TinyModel
) -> None:
    closed = []

    def steps() -> Steps[str]:
        try:
            yield None
            raise kind("no such kernel")
        finally:
            closed.append(True)

    work = work_of(steps(), tiny_model)
    read(work, 10)
    assert work.is_done
    assert closed == [True]
    work.tell()
    error = work.handle.exception()
    assert isinstance(error, EngineFailed)
    assert error.message == "no such kernel"
    assert error.__traceback__ is None


def test_an_allocation_that_fails_has_stored_prefixes_make_way_and_is_tried_again(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.select()
    freed: list[int] = []
    real = mx.eval

    def scarce(*arrays: Any) -> None:
        if not freed:
            raise RuntimeError("[malloc_or_wait] Unable to allocate 400 bytes.")
        real(*arrays)

    monkeypatch.setattr(mx, "eval", scarce)
    load = Loading(entry_for(tiny_model("llama")), reserved_bytes=1000, free=freed.append)
    finish(load.evaluate([mx.ones((100,))]))
    assert freed == [1000]
    assert load.reserved_bytes == 600

    monkeypatch.setattr(mx, "eval", lambda *_: scarce_for_ever())
    with pytest.raises(RuntimeError, match="Unable to allocate"):
        finish(load.evaluate([mx.ones((100,))]))


def scarce_for_ever() -> None:
    raise RuntimeError("[malloc_or_wait] Unable to allocate 400 bytes.")


# -- reading ahead ---------------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "model-1.safetensors", tmp_path / "model-2.safetensors"]
    save_file({"a": np.zeros(1000, np.float32), "b": np.ones(10, np.float32)}, files[0])
    save_file({"c": np.full(500, 2, np.float32)}, files[1])
    return files


def test_places_run_through_all_files(shards: list[Path]) -> None:
    places = places_of(shards)
    first_bytes = shards[0].stat().st_size
    assert sorted(places.ends, key=lambda name: places.ends[name])[-1] == "c"
    assert max(places.ends["a"], places.ends["b"]) == first_bytes
    assert places.ends["c"] == first_bytes + shards[1].stat().st_size


def test_what_is_read_is_told(shards: list[Path]) -> None:
    places = places_of(shards)
    ahead = ReadAhead(places)
    waiting = [ahead.reached(places.ends[name]) for name in ("a", "c")]
    assert not any(future.done() for future in waiting)
    ahead.run()
    assert all(future.done() for future in waiting)
    assert ahead.reached(10**12).done(), "nothing more comes"


def test_a_file_that_went_away_keeps_nobody_waiting(shards: list[Path]) -> None:
    places = places_of(shards)
    ahead = ReadAhead(places)
    future = ahead.reached(places.ends["c"])
    shards[1].unlink()
    ahead.run()
    assert future.done()


def test_a_stopped_reader_keeps_nobody_waiting(shards: list[Path]) -> None:
    ahead = ReadAhead(places_of(shards))
    future = ahead.reached(10)
    ahead.stop()
    assert future.done()


def test_a_shard_that_is_cut_short_is_named(shards: list[Path]) -> None:
    with open(shards[1], "r+b") as file:
        file.truncate(shards[1].stat().st_size - 100)
    with pytest.raises(BrokenFile, match=r"model-2\.safetensors is cut short: 100 bytes"):
        places_of(shards)


def test_arrays_come_in_the_files_order_and_combined_ones_last(
    shards: list[Path], tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_PIECE_BYTES", 1)
    device.select()
    tensors = {**mx.load(str(shards[0])), **mx.load(str(shards[1]))}
    arrays = {"sum": tensors["a"][:500] + tensors["c"], "c": tensors["c"], "a": tensors["a"]}
    brought: list[float] = []
    real = Loading.bring
    monkeypatch.setattr(
        Loading,
        "bring",
        lambda self, piece: (real(self, piece), brought.append(float(piece[0][0])))[0],
    )
    with ThreadPoolExecutor(2) as threads:
        load = Loading(entry_for(tiny_model("llama")), threads=threads, reserved_bytes=10_000)
        finish(evaluate_behind(load, arrays, shards))
    assert brought == [0.0, 2.0, 2.0]
    assert float(arrays["sum"].sum()) == 1000
