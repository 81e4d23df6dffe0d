"""Models come on their first request, one load for all who wait, and go when room is needed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from maxi_mlx.core.errors import (
    DoesNotFit,
    EngineFailed,
    InvalidRequest,
    ModelNotFound,
)
from maxi_mlx.core.events import Started
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.memory_need import need_of
from tests.engine.asking import Reply, ask, make_request, settled
from tests.engine.conftest import make_engine
from tests.models import build_model

PROMPT = [20, 30, 40]

TinyModel = Callable[[str], Path]


def answered_by(reply: Reply) -> str:
    assert isinstance(reply.events[0], Started)
    return reply.events[0].model


async def test_the_model_named_at_start_is_loaded_without_a_request(tiny_model: TinyModel) -> None:
    settings = Settings(model="tiny-llama")
    async with make_engine([tiny_model("llama"), tiny_model("qwen3")], settings) as engine:
        assert engine.status().state == "starting"
        await engine.wait_ready()
        assert engine.status().state == "ready"
        assert [(m.id, m.state) for m in engine.status().loaded] == [("tiny-llama", "ready")]
        assert answered_by(await ask(engine, make_request(PROMPT, model="default"))) == "tiny-llama"


async def test_the_only_model_answers_requests_that_name_none(tiny_model: TinyModel) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        assert answered_by(await ask(engine, make_request(PROMPT, model=""))) == "tiny-llama"


async def test_a_fallback_answers_names_nobody_knows(tiny_model: TinyModel) -> None:
    settings = Settings(fallback_model="tiny-llama")
    async with make_engine([tiny_model("llama"), tiny_model("qwen3")], settings) as engine:
        assert answered_by(await ask(engine, make_request(PROMPT, model="gpt-4o"))) == "tiny-llama"
        assert (
            answered_by(await ask(engine, make_request(PROMPT, model="tiny-qwen3"))) == "tiny-qwen3"
        )


async def test_two_models_generate_at_once(tiny_model: TinyModel) -> None:
    async with make_engine([tiny_model("llama"), tiny_model("qwen3")]) as engine:
        names = ("tiny-llama", "tiny-qwen3", "tiny-llama", "tiny-qwen3")
        requests = [make_request(PROMPT, model=name, max_tokens=30) for name in names]
        together = await asyncio.gather(*(ask(engine, request) for request in requests))
        for request, reply in zip(requests, together, strict=True):
            assert reply.text == (await ask(engine, request)).text
        assert len(engine.status().loaded) == 2


@pytest.mark.slow
async def test_a_broken_model_says_why_and_is_tried_again(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    """Its headers are whole, so the catalog lists it; its shapes don't fit its config."""
    folder = tmp_path / "broken"
    shutil.copytree(tiny_model("llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 32}))
    async with make_engine([folder, tiny_model("qwen3")]) as engine:
        for _ in range(2):
            with pytest.raises(EngineFailed, match=r"broken could not be loaded: .*shape"):
                await ask(engine, make_request(PROMPT, model="broken"))
        assert engine.status().loaded == ()
        [history] = engine.status().histories
        assert (history.id, history.num_failed_loads, history.num_loads) == ("broken", 2, 0)
        assert (await ask(engine, make_request(PROMPT, model="tiny-qwen3"))).text
        (folder / "config.json").write_text(json.dumps(config))
        assert (await ask(engine, make_request(PROMPT, model="broken"))).text


async def test_a_broken_model_named_at_start_is_told(tiny_model: TinyModel) -> None:
    async with make_engine([tiny_model("llama")], Settings(model="nonesuch")) as engine:
        with pytest.raises(ModelNotFound, match="nonesuch"):
            await engine.wait_ready()
        assert engine.status().state == "failed"
        assert "nonesuch" in str(engine.status().fault)


async def test_what_cannot_write_text_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "picture.gguf-only"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"GGUF")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    async with make_engine([folder]) as engine:
        with pytest.raises(InvalidRequest, match="can't be served"):
            await ask(engine, make_request(PROMPT, model=folder.name))


def limited(engine: Engine, limit_bytes: int) -> None:
    """As on a machine with so much memory."""
    engine._device.limit_bytes = limit_bytes


def need_bytes(engine: Engine, name: str) -> int:
    entry = engine._names._catalog.find(name)
    return need_of(entry, kv_bits=None, max_kv_size=None).num_bytes


@pytest.mark.slow
async def test_the_model_idle_longest_makes_room(tiny_model: TinyModel) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3", "qwen2")]
    async with make_engine(folders, Settings(cache_memory_bytes=0)) as engine:
        await ask(engine, make_request(PROMPT, model="tiny-llama"))
        await ask(engine, make_request(PROMPT, model="tiny-qwen3"))
        await ask(engine, make_request(PROMPT, model="tiny-llama"))
        await settled(engine)
        # With one of the two gone there is room enough, and with both here there is not.
        limited(engine, mx.get_active_memory() - 400_000 + need_bytes(engine, "tiny-qwen2"))
        await ask(engine, make_request(PROMPT, model="tiny-qwen2"))
        assert {m.id for m in engine.status().loaded} == {"tiny-llama", "tiny-qwen2"}
        assert (await ask(engine, make_request(PROMPT, model="tiny-llama"))).text


async def test_two_loads_do_not_count_on_the_same_free_memory(tiny_model: TinyModel) -> None:
    """Room for one more only: one of two that come together has to make room again."""
    async with make_engine([tiny_model(family) for family in ("llama", "qwen3")]) as engine:
        await engine.wait_ready()
        limited(engine, mx.get_active_memory() + need_bytes(engine, "tiny-qwen3") + 50_000)
        names = ("tiny-llama", "tiny-qwen3")
        replies = await asyncio.gather(
            *(ask(engine, make_request(PROMPT, model=name)) for name in names),
        )
        assert all(reply.text for reply in replies)
        assert len(engine.status().loaded) == 1


@pytest.mark.slow
async def test_a_changed_folder_is_loaded_anew_and_the_old_goes(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_model("llama"), tmp_path / "changing")
    async with make_engine([folder]) as engine:
        before = (await ask(engine, make_request(PROMPT, model="changing"))).text
        build_model(tmp_path / "other", "llama", seed=5)
        shutil.copy(tmp_path / "other" / "model.safetensors", folder)
        os.utime(folder / "model.safetensors", (time.time() + 10, time.time() + 10))
        assert (await ask(engine, make_request(PROMPT, model="changing"))).text != before
        assert [model.id for model in engine.status().loaded] == ["changing"]


async def test_a_model_larger_than_the_machine_is_refused_with_numbers(
    tiny_model: TinyModel,
) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await engine.wait_ready()
        limited(engine, 1000)
        with pytest.raises(DoesNotFit, match=r"tiny-llama needs .* GiB.*may take 0\.0 GiB"):
            await ask(engine, make_request(PROMPT))


@pytest.mark.slow
async def test_a_prompt_that_cannot_fit_is_refused_with_numbers(tiny_model: TinyModel) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await ask(engine, make_request(PROMPT))
        limited(engine, 1_000_000)
        with pytest.raises(DoesNotFit, match=r"400 tokens with 8 answers needs .* MiB"):
            await ask(engine, make_request([10] * 400, n=8))


@pytest.mark.slow
async def test_memory_comes_back_after_an_unload(tiny_model: TinyModel) -> None:
    folders = [tiny_model(family) for family in ("llama", "qwen3")]
    async with make_engine(folders, Settings(cache_memory_bytes=0)) as engine:
        await ask(engine, make_request(PROMPT, model="tiny-llama"))
        await settled(engine)
        limited(engine, mx.get_active_memory() + 500_000)
        levels = []
        for name in ("tiny-qwen3", "tiny-llama") * 4:
            await ask(engine, make_request(PROMPT, model=name))
            assert [model.id for model in engine.status().loaded] == [name]
            await settled(engine)
            levels.append(mx.get_active_memory())
        # The same two models again and again: no round may add to what the first took.
        assert max(levels[2:]) <= max(levels[:2]) * 1.02


async def test_many_who_wait_share_one_load(
    tiny_model: TinyModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="maxi_mlx.engine.model_pool")
    async with make_engine([tiny_model("llama")]) as engine:
        request = make_request(PROMPT)
        first = asyncio.create_task(ask(engine, request))
        others = [asyncio.create_task(ask(engine, replace(request, id=f"r{i}"))) for i in range(4)]
        while not engine.status().loaded:
            await asyncio.sleep(0)
        first.cancel()  # the one who asked first leaves; the load goes on for the rest
        replies = await asyncio.gather(*others)
        assert len({reply.text for reply in replies}) == 1
        loads = [record for record in caplog.records if "loaded tiny-llama" in record.message]
        assert len(loads) == 1
