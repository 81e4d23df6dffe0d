"""Model folders that are broken in ways that only loading or using them shows."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.core.errors import ContextTooLong, EngineFailed, InvalidRequest, Unavailable
from maxi_mlx.core.request import TextPrompt
from maxi_mlx.engine.cache_form import CacheForm
from maxi_mlx.engine.language_model import read_sampling_defaults
from tests.engine.asking import ask, make_request
from tests.engine.conftest import entry_for, load_language_model, make_engine

PROMPT = [20, 30, 40]

TinyModel = Callable[[str], Path]


@pytest.fixture
def copy_of(tiny_model: TinyModel, tmp_path: Path) -> Callable[[str], Path]:
    """A tiny model's folder that a test may spoil."""

    def copy(family: str) -> Path:
        return shutil.copytree(tiny_model(family), tmp_path / "spoilt")

    return copy


def change(file: Path, edit: Callable[[Any], None]) -> None:
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))


async def test_a_tokenizer_that_panics_in_native_code_ends_its_own_request(
    copy_of: Callable[[str], Path], tiny_model: TinyModel
) -> None:
    folder = copy_of("llama")

    def spoil(tokenizer: Any) -> None:
        tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}

    change(folder / "tokenizer.json", spoil)
    async with make_engine([folder, tiny_model("qwen3")]) as engine:
        async with asyncio.timeout(30):
            with pytest.raises(EngineFailed, match="spoilt could not be loaded"):
                await ask(engine, make_request(PROMPT, model="spoilt"))
            assert (await ask(engine, make_request(PROMPT, model="tiny-qwen3"))).text
        assert engine.status().state == "ready"


@pytest.mark.slow
async def test_a_load_that_fails_late_leaves_nothing_in_memory(
    copy_of: Callable[[str], Path],
) -> None:
    """The tokenizer is read after the weights."""
    folder = copy_of("llama")
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "none"}}')
    async with make_engine([folder]) as engine:
        await engine.wait_ready()
        before = mx.get_active_memory()
        for _ in range(3):
            with pytest.raises(EngineFailed):
                await ask(engine, make_request(PROMPT, model="spoilt"))
        assert mx.get_active_memory() - before < 100_000


async def test_a_request_that_comes_while_the_engine_closes_is_answered(
    tiny_model: TinyModel,
) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await engine.wait_ready()
        late = asyncio.create_task(ask(engine, make_request(PROMPT)))
        await asyncio.sleep(0)
        await engine.close()
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match="shutting down"):
                await late


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({"temperature": 0.6, "top_p": 0.95, "top_k": 20}, None, id="as they are"),
        pytest.param({"top_k": -1, "top_p": 0.0, "min_p": 5}, {}, id="off, as others write it"),
        pytest.param({"repetition_penalty": 0, "temperature": -1}, {}, id="no sense"),
        pytest.param({"temperature": "0.6", "top_k": True}, {}, id="not numbers"),
        pytest.param({"temperature": float("nan")}, {}, id="NaN"),
        pytest.param({"top_k": 2.5}, {}, id="half a token"),
        pytest.param(
            {"do_sample": False, "temperature": 0.6}, {"temperature": 0.0}, id="greedy by wish"
        ),
        pytest.param([], {}, id="not an object"),
    ],
)
def test_what_the_authors_recommend_counts_where_it_makes_sense(
    config: Any, expected: dict[str, float] | None, tmp_path: Path
) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    found = read_sampling_defaults(tmp_path)
    assert found == (config if expected is None else expected)


def test_without_recommendations_there_are_none(tmp_path: Path) -> None:
    assert read_sampling_defaults(tmp_path) == {}


async def test_odd_recommendations_do_not_spoil_answers(
    copy_of: Callable[[str], Path], tiny_model: TinyModel
) -> None:
    folder = copy_of("llama")
    odd = {"top_k": -1, "top_p": 0.95, "repetition_penalty": 0}
    (folder / "generation_config.json").write_text(json.dumps(odd))
    async with make_engine([folder, tiny_model("llama")]) as engine:
        spoilt = await ask(engine, make_request(PROMPT, model="spoilt"))
        assert spoilt.text == (await ask(engine, make_request(PROMPT, model="tiny-llama"))).text


def test_a_vocabulary_with_holes_keeps_its_last_words(copy_of: Callable[[str], Path]) -> None:
    """Ids that are not one after the other, as in vocabularies made for another library."""
    folder = copy_of("qwen3")  # whose table has more rows than tokens
    moved: dict[str, int] = {}

    def open_holes(tokenizer: Any) -> None:
        vocabulary = tokenizer["model"]["vocab"]
        added = {token["content"] for token in tokenizer["added_tokens"]}
        pieces = sorted(set(vocabulary) - added, key=vocabulary.__getitem__)[-5:]
        for i, piece in enumerate(pieces):
            vocabulary[piece] = moved[piece] = 520 + 2 * i

    change(folder / "tokenizer.json", open_holes)
    model = load_language_model(entry_for(folder), CacheForm())
    assert len(moved) == 5
    for token_id in moved.values():
        assert model.vocabulary.data(token_id)


async def test_a_prompt_of_megabytes_is_refused_before_it_is_cut_into_tokens(
    tiny_model: TinyModel,
) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await ask(engine, make_request(PROMPT))
        text = "word " * 2_000_000
        started = time.process_time()
        with pytest.raises(ContextTooLong, match=r"tokens or more.*context of 512"):
            await ask(engine, make_request(TextPrompt(text)))
        assert time.process_time() - started < 1


async def test_an_end_token_beyond_the_table_does_no_harm(copy_of: Callable[[str], Path]) -> None:
    """MLX does not check what it gathers: such an id would read foreign memory."""
    folder = copy_of("llama")

    def spoil(config: Any) -> None:
        config["eos_token_id"] = 2_000_000_000

    change(folder / "config.json", spoil)
    change(folder / "tokenizer_config.json", lambda config: config.pop("eos_token", None))
    async with make_engine([folder]) as engine:
        assert (await ask(engine, make_request(PROMPT, model="spoilt"))).text


def test_one_huge_token_id_does_not_fill_the_memory(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("llama")

    def spoil(tokenizer: Any) -> None:
        tokenizer["model"]["vocab"]["enormous"] = 300_000_000

    change(folder / "tokenizer.json", spoil)
    model = load_language_model(entry_for(folder), CacheForm())
    assert model.vocabulary.data(511)
    assert not model.vocabulary.data(300_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["generation_config.json", "model-extra.safetensors"])
async def test_a_pipe_among_the_files_is_refused(
    name: str, copy_of: Callable[[str], Path], tiny_model: TinyModel
) -> None:
    folder = copy_of("llama")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    async with make_engine([folder, tiny_model("qwen3")]) as engine, asyncio.timeout(30):
        with pytest.raises(InvalidRequest, match=r"no regular file|can't be served"):
            await ask(engine, make_request(PROMPT, model="spoilt"))
        assert (await ask(engine, make_request(PROMPT, model="tiny-qwen3"))).text
