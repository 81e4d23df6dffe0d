"""A base and adapters over it: each answers as mlx-lm has it, over one set of weights."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from maxi_mlx.catalog.adapter_folders import AdapterReader
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.cache_namespace import cache_namespace
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.memory_need import need_of
from tests.engine.asking import Reply, ask, make_request, settled, until_gone
from tests.engine.conftest import entry_for, make_engine
from tests.engine.test_model_pool_memory import with_room_for
from tests.models import build_model
from tests.models.adapter import build_adapter, tokens_by_mlx_lm

PROMPT = [20, 30, 40]
POET = "tiny-llama:poet"

TinyModel = Callable[[str], Path]


def ids(reply: Reply) -> list[int]:
    return [token.token_id for token in reply.tokens[0]]


async def tokens(engine: Engine, model: str, adapter: str | None = None) -> list[int]:
    request = make_request(PROMPT, model=model, adapter=adapter, top_logprobs=0)
    return ids(await ask(engine, request))


def loaded(engine: Engine) -> list[str]:
    return sorted(model.id for model in engine.status().loaded)


@pytest.fixture
def poet(tiny_model: TinyModel, tmp_path: Path) -> Path:
    return build_adapter(tmp_path / "adapters" / "poet", tiny_model("llama"))


def settings_of(adapter: Path, **more: object) -> Settings:
    return Settings(adapter_dirs=(adapter.parent,), cache_disk_bytes=0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("llama", "lora"),
        ("llama-4bit", "lora"),
        ("llama-4bit", "dora"),
        ("qwen3_5", "lora"),
        ("gemma3", "full"),
    ],
)
async def test_base_and_adapter_answer_as_mlx_lm_does(
    tiny_model: TinyModel, tmp_path: Path, family: str, kind: str
) -> None:
    base = tiny_model(family)
    adapter = build_adapter(tmp_path / "adapters" / "poet", base, kind=kind)
    expected = tokens_by_mlx_lm(base, adapter, prompt=PROMPT)
    plain = tokens_by_mlx_lm(base, None, prompt=PROMPT)
    assert plain != expected
    async with make_engine([base], settings_of(adapter)) as engine:
        name = f"tiny-{family}"
        assert await tokens(engine, f"{name}:poet") == expected
        assert await tokens(engine, name) == plain
        # Side by side, by either name, each in its own batch and with its own stored prefixes.
        asked = [(name, None), (name, "poet"), (f"{name}:poet", None)] * 2
        answers = await asyncio.gather(*(tokens(engine, *each) for each in asked))
        assert answers == [plain, expected, expected] * 2


async def test_the_bases_weights_are_there_once(tmp_path: Path) -> None:
    base = build_model(tmp_path / "models" / "wide", "llama", hidden_size=512, num_hidden_layers=4)
    adapter = build_adapter(tmp_path / "adapters" / "poet", base)
    async with make_engine([base], settings_of(adapter, cache_memory_bytes=0)) as engine:
        await tokens(engine, "wide")
        base_bytes = await _active(engine)
        await tokens(engine, "wide:poet")
        grown_bytes = await _active(engine) - base_bytes
        by_id = {model.id: model for model in engine.status().loaded}
        own_bytes = by_id["wide:poet"].weight_bytes
        assert by_id["wide:poet"].base == "wide"
        assert own_bytes < by_id["wide"].weight_bytes / 10
        assert grown_bytes < own_bytes + by_id["wide"].weight_bytes / 10


async def _active(engine: Engine) -> int:
    def read() -> int:
        gc.collect()
        mx.clear_cache()
        return mx.get_active_memory()

    await settled(engine)
    return await engine._device.call(read)


async def test_the_base_stays_while_an_adapter_is_over_it(
    tiny_model: TinyModel, poet: Path
) -> None:
    async with make_engine([tiny_model("llama")], settings_of(poet, keep_alive_s=0.0)) as engine:
        assert await tokens(engine, POET)
        await until_gone(engine)
    async with make_engine([tiny_model("llama")], settings_of(poet)) as engine:
        await tokens(engine, POET)
        assert loaded(engine) == ["tiny-llama", POET]
        # An adapter that goes leaves its base; a base takes its idle adapters with it.
        await engine.unload(POET)
        assert loaded(engine) == ["tiny-llama"]
        await tokens(engine, POET)
        await engine.unload("tiny-llama")
        assert loaded(engine) == []
        assert await tokens(engine, POET) == await tokens(engine, "tiny-llama", "poet")
        await engine.release(await engine._names.find("tiny-llama"))  # whose folder is to go
        assert loaded(engine) == []


async def test_a_pinned_adapter_keeps_its_base(tiny_model: TinyModel, poet: Path) -> None:
    own = {POET: ModelSettings(is_pinned=True, aliases=("gpt-4o",), max_tokens=3)}
    async with make_engine([tiny_model("llama")], settings_of(poet, models=own)) as engine:
        await engine.wait_ready()
        assert {m.id: m.is_pinned for m in engine.status().loaded} == {
            "tiny-llama": True,
            POET: True,
        }
        with pytest.raises(InvalidRequest, match="pinned"):
            await engine.unload("tiny-llama")
        reply = await ask(engine, make_request(PROMPT, model="gpt-4o", max_tokens=None))
        assert reply.usage is not None
        assert reply.usage.completion_tokens == 3


async def test_names_of_adapters_that_are_not_there(tiny_model: TinyModel, poet: Path) -> None:
    async with make_engine([tiny_model("llama")], settings_of(poet)) as engine:
        for name in ("none", str(poet), "../adapters/poet"):
            with pytest.raises(ModelNotFound, match=r"There are: 'poet'") as caught:
                await tokens(engine, "tiny-llama", name)
            assert caught.value.param == "adapters"
        with pytest.raises(InvalidRequest, match="has an adapter already"):
            await tokens(engine, POET, "poet")
        with pytest.raises(ModelNotFound):
            await tokens(engine, "tiny-llama:none")


async def test_an_adapter_that_does_not_fit_is_told_and_harms_nobody(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    base = tiny_model("llama")
    other = build_model(tmp_path / "other", "llama", hidden_size=32)
    build_adapter(tmp_path / "adapters" / "shapes", other, model="tiny-llama")
    cut = build_adapter(tmp_path / "adapters" / "layers", base)
    config = json.loads((cut / "adapter_config.json").read_text())
    (cut / "adapter_config.json").write_text(json.dumps({**config, "num_layers": 1}))
    half = build_adapter(tmp_path / "adapters" / "half", base) / "adapters.safetensors"
    weights = {name: array for name, array in mx.load(str(half)).items() if "lora_a" in name}
    mx.save_safetensors(str(half), weights)
    async with make_engine([base], settings_of(cut)) as engine:
        for name in ("shapes", "layers", "half"):
            with pytest.raises(InvalidRequest, match=f"The adapter {name} .* doesn't fit"):
                await tokens(engine, f"tiny-llama:{name}")
        assert loaded(engine) == ["tiny-llama"]
        assert await tokens(engine, "tiny-llama") == tokens_by_mlx_lm(base, None, prompt=PROMPT)
        await engine.unload("tiny-llama")
        assert loaded(engine) == []


async def test_room_is_counted_for_the_base_once_and_made_by_both(
    tiny_model: TinyModel, poet: Path
) -> None:
    folders = [tiny_model("llama"), tiny_model("qwen3")]
    async with make_engine(folders, settings_of(poet, cache_memory_bytes=0)) as engine:
        # Both fit one by one, but neither beside the other; the adapter with its base does.
        await with_room_for(engine, "llama")
        catalog = engine._names._catalog
        poets = need_of(catalog.find(POET), kv_bits=None, max_kv_size=None)
        assert poets.weight_bytes < catalog.find("tiny-llama").weight_bytes / 5
        engine._device.limit_bytes += poets.num_bytes
        await tokens(engine, POET)
        assert loaded(engine) == ["tiny-llama", POET]
        await tokens(engine, "tiny-qwen3")
        assert loaded(engine) == ["tiny-qwen3"]
        await tokens(engine, POET)
        assert loaded(engine) == ["tiny-llama", POET]


@pytest.mark.slow
async def test_bases_and_adapters_that_do_not_all_fit_take_turns(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    families = ("llama", "qwen3")
    folders = {family: tiny_model(family) for family in families}
    expected = {}
    for family, base in folders.items():
        adapter = build_adapter(tmp_path / "adapters" / f"poet-{family}", base)
        expected[f"tiny-{family}"] = tokens_by_mlx_lm(base, None, prompt=PROMPT)
        expected[f"tiny-{family}:{adapter.name}"] = tokens_by_mlx_lm(base, adapter, prompt=PROMPT)
    settings = settings_of(adapter, cache_memory_bytes=0)
    async with make_engine(list(folders.values()), settings) as engine:
        await with_room_for(engine, "qwen3")
        poets = need_of(
            engine._names._catalog.find("tiny-qwen3:poet-qwen3"), kv_bits=None, max_kv_size=None
        )
        engine._device.limit_bytes += poets.num_bytes
        names = [*expected] * 8
        async with asyncio.timeout(200):
            answers = await asyncio.gather(*(tokens(engine, name) for name in names))
        assert answers == [expected[name] for name in names]
        used = [slot.num_users for slot in engine._pool.slots]
        assert sum(used) == sum(slot.base is not None for slot in engine._pool.slots)


def test_prefixes_of_base_and_adapters_are_never_mixed(tiny_model: TinyModel, poet: Path) -> None:
    base = entry_for(tiny_model("llama"))

    def namespace() -> str:
        found = AdapterReader().read(poet).adapter
        return cache_namespace(replace(base, adapter=found), kv_bits=None, max_kv_size=None)

    names = [cache_namespace(base, kv_bits=None, max_kv_size=None), namespace()]
    build_adapter(poet, base.path, seed=7)
    names.append(namespace())
    config = poet / "adapter_config.json"
    config.write_text(config.read_text().replace("10.0", "20.0"))
    names.append(namespace())
    assert len(set(names)) == len(names)


async def test_a_trained_anew_adapter_is_loaded_anew(tiny_model: TinyModel, poet: Path) -> None:
    base = tiny_model("llama")
    async with make_engine([base], settings_of(poet)) as engine:
        before = await tokens(engine, POET)
        again = build_adapter(poet.parent.parent / "again", base, seed=7)
        shutil.copytree(again, poet, dirs_exist_ok=True)
        after = await tokens(engine, POET)
        assert after == tokens_by_mlx_lm(base, poet, prompt=PROMPT)
        assert after != before
