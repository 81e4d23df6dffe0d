"""--kv-bits and --max-kv-size: what mlx-lm does with them, or a refusal that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import QuantizedKVCache, RotatingKVCache

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.cache_form import CacheForm
from maxi_mlx.engine.language_model import LanguageModel, load_language_model
from tests.engine.asking import ask, make_request
from tests.engine.conftest import entry_for, make_engine
from tests.engine.desk import BALANCED, Desk
from tests.engine.test_batch import prompt_of
from tests.models import build_model

TinyModel = Callable[[str], Path]


def load(folder: Path, **form: int) -> LanguageModel:
    return load_language_model(entry_for(folder), CacheForm(**form))


def answers(model: LanguageModel, prompts: list[list[int]], count: int) -> list[list[int]]:
    """Of requests that come together, each prompt read in one slice: what a window with its first
    tokens kept lets a prompt see depends on how it is cut."""
    desk = Desk(model, replace(BALANCED, decode_share=1e-6))
    desk.submit(prompt_of(70, 9), max_tokens=1)
    desk.run()
    rows = [desk.submit(prompt, max_tokens=count)[0] for prompt in prompts]
    desk.run()
    return [desk.tokens(row) for row in rows]


PROMPTS = [prompt_of(60, 1), prompt_of(25, 2), prompt_of(60, 1)]


@pytest.fixture(scope="session")
def wide_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads have 64 values, as published ones have or more."""
    folder = tmp_path_factory.mktemp("wide") / "wide-qwen3"
    return build_model(folder, "qwen3", head_dim=64)


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_keys_and_values_give_what_mlx_lm_gives(bits: int, wide_qwen3: Path) -> None:
    model = load(wide_qwen3, kv_bits=bits)
    assert not model.can_batch
    assert all(type(entry) is QuantizedKVCache for entry in model.new_cache())
    found = answers(model, PROMPTS, 20)
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        step = generate_step(
            mx.array(prompt),
            model.model,
            max_tokens=20,
            prompt_cache=[QuantizedKVCache(64, bits) for _ in model.model.layers],
        )
        assert tokens == [int(token) for token, _ in step]


def test_quantised_caches_are_smaller(wide_qwen3: Path) -> None:
    plain, small = load(wide_qwen3), load(wide_qwen3, kv_bits=4)
    assert small.kv_cost.row_bytes(1000) < plain.kv_cost.row_bytes(1000) / 4


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_a_window_keeps_the_first_and_the_latest(family: str, tiny_model: TinyModel) -> None:
    """For llama too, which mlx-lm's own option passes over."""
    model = load(tiny_model(family), max_kv_size=32)
    assert not model.can_batch
    found = answers(model, PROMPTS, 40)
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        step = generate_step(
            mx.array(prompt),
            model.model,
            max_tokens=40,
            prompt_cache=[RotatingKVCache(max_size=32, keep=4) for _ in model.model.layers],
        )
        assert tokens == [int(token) for token, _ in step]
    assert model.kv_cost.row_bytes(100_000) == model.kv_cost.row_bytes(32)


@pytest.mark.parametrize(
    ("family", "form", "words"),
    [
        pytest.param("gemma3", {"kv_bits": 4}, "can't quantise a sliding window", id="window"),
        pytest.param("mamba2", {"kv_bits": 4}, "nothing to act on", id="recurrent, bits"),
        pytest.param("mamba2", {"max_kv_size": 64}, "nothing to act on", id="recurrent, size"),
        pytest.param("llama", {"kv_bits": 4}, "16 values", id="narrow heads"),
    ],
)
def test_what_cannot_be_had_is_refused(
    family: str, form: dict[str, int], words: str, tiny_model: TinyModel
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        load(tiny_model(family), **form)


@pytest.mark.slow
async def test_a_request_for_a_model_that_cannot_have_it_is_told(tiny_model: TinyModel) -> None:
    folders = [tiny_model("mamba2"), tiny_model("llama")]
    async with make_engine(folders, Settings(max_kv_size=64)) as engine:
        with pytest.raises(InvalidRequest, match="--max-kv-size 64 has nothing to act on"):
            await ask(engine, make_request([10, 20], model="tiny-mamba2"))
        assert (await ask(engine, make_request([10, 20]))).text
        assert [model.id for model in engine.status().loaded] == ["tiny-llama"]
