"""What models may take of the memory: what counts, who makes room, who waits, who is refused."""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.errors import Unavailable
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import device, model_pool
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.host_memory import footprint_bytes
from maxi_mlx.engine.memory_need import need_of
from maxi_mlx.engine.memory_room import HostReading, measure_room
from tests.engine.asking import Reply, ask, make_request, settled, slowed
from tests.engine.conftest import LoadTiny, make_engine

pytestmark = pytest.mark.slow

PROMPT = [20, 30, 40]
GIB = 2**30

TinyModel = Callable[[str], Path]


def loaded(engine: Engine) -> set[str]:
    return {model.id for model in engine.status().loaded}


async def with_room_for(engine: Engine, *families: str) -> None:
    """As on a machine that has so much, beyond what others in this process hold."""
    await engine.wait_ready()
    await settled(engine)
    catalog = engine._names._catalog
    needs = [need_of(catalog.find(f"tiny-{f}"), kv_bits=None, max_kv_size=None) for f in families]
    weights = sum(model.weight_bytes for model in engine.status().loaded)
    engine._device.limit_bytes = (
        mx.get_active_memory() - weights + sum(need.num_bytes for need in needs) + 30_000
    )


# -- what is counted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("active", "reserved", "available", "footprint", "left", "bound"),
    [
        (0, 0, 15, 0, 12.0, "models may take"),
        (4, 3, 15, 4, 5.0, "models may take"),
        (4, 0, 4, 4, 3.5, "other programs"),
        (4, 3, 4, 4, 0.5, "other programs"),
        (2, 0, 15, 9, 3.8, "this process"),
        (2, 2, 15, 9, 1.8, "this process"),
        (13, 0, 15, 13, -1.0, "models may take"),
    ],
)
def test_the_tightest_bound_counts(
    active: int, reserved: int, available: int, footprint: int, left: float, bound: str
) -> None:
    """16 GiB of memory, of which the device may hold 15, and models 12."""
    host = HostReading(
        total_bytes=16 * GIB,
        available_bytes=available * GIB,
        footprint_bytes=footprint * GIB,
        active_bytes=active * GIB,
    )
    room = measure_room(
        limit_bytes=12 * GIB,
        share=0.8,
        active_bytes=active * GIB,
        promised_bytes=reserved * GIB,
        host=host,
    )
    assert room.left_bytes / GIB == pytest.approx(left)
    assert bound in room.bound
    assert room.left_bytes < room.left_at_last_bytes


def test_what_was_taken_since_the_machine_was_asked_counts_too() -> None:
    host = HostReading(
        total_bytes=32 * GIB, available_bytes=9 * GIB, footprint_bytes=0, active_bytes=0
    )
    rooms = [
        measure_room(
            limit_bytes=25 * GIB,
            share=0.8,
            active_bytes=taken * GIB,
            promised_bytes=(6 - taken) * GIB,  # what a load takes is reserved no more
            host=host,
        )
        for taken in (0, 2, 6)
    ]
    assert [room.left_bytes / GIB for room in rooms] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen2"])
def test_the_need_before_loading_is_what_is_measured_after(
    family: str, tiny_model: TinyModel, load_tiny: LoadTiny
) -> None:
    [entry] = Catalog([Root(tiny_model(family), "test", "folders")]).entries()
    need = need_of(entry, kv_bits=None, max_kv_size=None)
    model = load_tiny(family)
    assert need.num_tokens == model.context_length == 512
    assert need.kv_bytes == model.kv_cost.row_bytes(512)
    assert need.num_bytes >= entry.weight_bytes + need.kv_bytes
    assert need_of(entry, kv_bits=None, max_kv_size=256).kv_bytes == need.kv_bytes // 2


def test_a_folder_whose_config_went_away_needs_its_weights_alone(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_model("llama"), tmp_path / "gone")
    [entry] = Catalog([Root(folder, "test", "folders")]).entries()
    shutil.rmtree(folder)
    assert need_of(entry, kv_bits=None, max_kv_size=None).kv_bytes == 0


def test_the_footprint_grows_with_what_is_taken() -> None:
    before = footprint_bytes()
    block = bytearray(64 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    assert footprint_bytes() - before > 50 * 2**20


@pytest.mark.parametrize(
    ("error", "is_for_memory"),
    [
        (RuntimeError("[metal::malloc] Unable to allocate 16384 bytes."), True),
        (RuntimeError("[malloc_or_wait] Unable to allocate 16384 bytes."), True),
        (RuntimeError("cudaMallocAsync failed: out of memory"), True),
        (MemoryError("std::bad_alloc"), True),
        (RuntimeError("[matmul] shapes differ"), False),
        (ValueError("out of memory"), False),
    ],
    ids=str,
)
def test_words_for_no_memory_are_known(error: Exception, is_for_memory: bool) -> None:
    """MLX's CPU build has none: there the process would end, so that nothing may get so far."""
    assert device.is_allocation_failure(error) == is_for_memory


# -- who makes room, who waits ---------------------------------------------------------------


async def test_a_load_waits_for_the_answers_of_a_model_in_use(tiny_model: TinyModel) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3")]
    async with make_engine(folders, Settings(cache_memory_bytes=0)) as engine:
        request = make_request(PROMPT, max_tokens=300)
        alone = (await ask(engine, request)).text
        await with_room_for(engine, "llama")
        with slowed():
            running = asyncio.create_task(ask(engine, replace(request, id="again")))
            while not engine.status().num_running:
                await asyncio.sleep(0)
        other = await ask(engine, make_request(PROMPT, model="tiny-qwen3"))
        assert running.done(), "its model was there until its answer was"
        assert (await running).text == alone
        assert other.text
        assert loaded(engine) == {"tiny-qwen3"}


async def test_a_load_has_its_turn_though_another_model_is_always_in_use(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_pool, "_PATIENCE_S", 0.2)
    folders = [tiny_model(family) for family in ("llama", "qwen3")]
    async with make_engine(folders, Settings(cache_memory_bytes=0)) as engine:
        want = (await ask(engine, make_request(PROMPT, max_tokens=40))).text
        await with_room_for(engine, "llama")
        done = asyncio.Event()
        texts: list[str] = []

        async def again_and_again() -> None:
            while not done.is_set():
                texts.append((await ask(engine, make_request(PROMPT, max_tokens=40))).text)

        users = [asyncio.create_task(again_and_again()) for _ in range(3)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            assert (await ask(engine, make_request(PROMPT, model="tiny-qwen3"))).text
        done.set()
        await asyncio.gather(*users)
        assert set(texts) == {want}
        assert loaded(engine) == {"tiny-llama"}, "who was asked to leave came back"


async def test_what_pinned_models_leave_is_told_at_once(tiny_model: TinyModel) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3")]
    settings = Settings(cache_memory_bytes=0, pins=("tiny-llama",))
    async with make_engine(folders, settings) as engine:
        await with_room_for(engine, "llama")
        with pytest.raises(Unavailable, match=r"tiny-qwen3 needs .*Pinned models .*tiny-llama"):
            await ask(engine, make_request(PROMPT, model="tiny-qwen3"))
        assert (await ask(engine, make_request(PROMPT))).text
        assert loaded(engine) == {"tiny-llama"}


async def test_the_model_of_the_start_makes_room_last(tiny_model: TinyModel) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3", "qwen2")]
    settings = Settings(cache_memory_bytes=0, model="tiny-llama")
    async with make_engine(folders, settings) as engine:
        await with_room_for(engine, "llama", "qwen3")
        for family in ("qwen3", "qwen2", "qwen3"):
            await ask(engine, make_request(PROMPT, model=f"tiny-{family}"))
            assert loaded(engine) == {"tiny-llama", f"tiny-{family}"}
        await with_room_for(engine, "qwen2")
        await ask(engine, make_request(PROMPT, model="tiny-qwen2"))
        assert loaded(engine) == {"tiny-qwen2"}


async def test_other_programs_memory_is_not_taken(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = device.read_host

    def busy() -> HostReading:
        host = real()
        return replace(host, available_bytes=host.total_bytes // 32 + 300_000)

    async with make_engine([tiny_model("llama")], Settings(cache_memory_bytes=0)) as engine:
        await engine.wait_ready()
        monkeypatch.setattr(device, "read_host", busy)
        with pytest.raises(Unavailable, match=r"other programs use too.*close other programs"):
            await ask(engine, make_request(PROMPT))
        monkeypatch.setattr(device, "read_host", real)
        assert (await ask(engine, make_request(PROMPT))).text


async def test_a_prompt_has_idle_models_make_room(tiny_model: TinyModel) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3")]
    async with make_engine(folders, Settings(cache_memory_bytes=0)) as engine:
        for family in ("qwen3", "llama"):
            await ask(engine, make_request(PROMPT, model=f"tiny-{family}"))
        await settled(engine)
        engine._device.limit_bytes = mx.get_active_memory() + 600_000
        await settled(engine)  # the figures are a moment old otherwise
        assert (await ask(engine, make_request([10] * 400, n=2))).texts
        assert loaded(engine) == {"tiny-llama"}
        histories = {history.id: history for history in engine.status().histories}
        assert {id: each.num_evictions for id, each in histories.items()} == {
            "tiny-qwen3": 1,
            "tiny-llama": 0,
        }
        assert all(each.num_loads == 1 and each.load_s > 0 for each in histories.values())


def decoding(engine: Engine) -> int:
    """On the device thread."""
    return sum(work.num_decoding for work in engine._device._works)


async def test_at_the_second_mark_the_newest_request_ends_and_no_other(
    tiny_model: TinyModel,
) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3")]
    async with make_engine(folders, Settings(cache_memory_bytes=0)) as engine:
        older = make_request(PROMPT, max_tokens=400)
        alone = (await ask(engine, older)).text
        await ask(engine, make_request(PROMPT, model="tiny-qwen3"))
        newer = make_request([10] * 300, model="tiny-qwen3", n=2, max_tokens=200)
        tasks: list[asyncio.Task[Reply]] = []

        def squeeze() -> None:
            # The newer one has some 520 kB; the older one may grow by 130.
            engine._device.limit_bytes = int((mx.get_active_memory() - 150_000) / 1.125)

        with slowed():
            for request, num_rows in ((older, 1), (newer, 3)):
                tasks.append(asyncio.create_task(ask(engine, request)))
                while await engine._device.call(lambda: decoding(engine)) < num_rows:
                    assert not any(task.done() for task in tasks)
            await engine._device.call(squeeze)
        replies = await asyncio.gather(*tasks)
        assert replies[0].text == alone
        assert "The memory is at its end" in str(replies[1].failure)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_memory_comes_back_through_fifty_rounds_of_three_models(
    tiny_model: TinyModel,
) -> None:
    families = ("llama", "qwen3", "gemma3")
    folders = [tiny_model(family) for family in families]
    settings = Settings(keep_alive_s=0, cache_disk_bytes=0)
    async with make_engine(folders, settings) as engine:
        await engine.wait_ready()
        active: list[int] = []
        footprint: list[int] = []
        for _ in range(50):
            for family in families:
                assert (await ask(engine, make_request(PROMPT, model=f"tiny-{family}"))).text
            while loaded(engine):
                await asyncio.sleep(0.01)
            await settled(engine)
            active.append(mx.get_active_memory())
            footprint.append(footprint_bytes())
        assert max(active[1:]) - min(active[1:]) < 50_000
        # Python's own heap wanders; a model a round, tokenizer and all, would be 50 MB and more.
        assert footprint[-1] - footprint[9] < 25 * 2**20
        gc.collect()
