"""The tiny models are what tests take them for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TinyModel
from tests.models import FAMILIES, build_model
from tests.models.families import CONTEXT_LENGTH, SLIDING_WINDOW

CACHES = {
    "llama": ["KVCache", "KVCache"],
    "llama-4bit": ["KVCache", "KVCache"],
    "llama-spm": ["KVCache", "KVCache"],
    "qwen2": ["KVCache", "KVCache"],
    "qwen3": ["KVCache", "KVCache"],
    "gemma3": ["RotatingKVCache", "RotatingKVCache", "KVCache"],
    "lfm2": ["ArraysCache", "KVCache", "ArraysCache"],
    "qwen3_5": ["ArraysCache", "KVCache"],
    "mamba2": ["ArraysCache", "ArraysCache"],
    "llama4": ["ChunkedKVCache", "ChunkedKVCache", "ChunkedKVCache", "KVCache"],
}
TEXTS = ("a", "  two  spaces", "naïve café", "こんにちは 👩‍👩‍👧", "line\n\nline\t", "<|im_end|>")


def load(folder: Path) -> tuple[Any, Any]:
    import mlx_lm

    model, tokenizer = mlx_lm.load(str(folder))[:2]
    return model, tokenizer


def greedy(folder: Path, question: str, *, max_tokens: int) -> list[int]:
    from mlx_lm import stream_generate

    model, tokenizer = load(folder)
    messages = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    return [r.token for r in stream_generate(model, tokenizer, prompt, max_tokens=max_tokens)]


@pytest.mark.parametrize("family", FAMILIES)
def test_its_rows_have_the_caches_it_is_there_for(family: str, tiny_model: TinyModel) -> None:
    from mlx_lm.models.cache import make_prompt_cache

    model, _ = load(tiny_model(family))
    assert [type(cache).__name__ for cache in make_prompt_cache(model)] == CACHES[family]


def test_the_window_rotates_within_a_short_prompt(tiny_model: TinyModel) -> None:
    from mlx_lm.models.cache import make_prompt_cache

    model, _ = load(tiny_model("gemma3"))
    assert make_prompt_cache(model)[0].max_size == SLIDING_WINDOW == 16


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_greedy_answer_goes_on_and_hangs_on_the_question(
    family: str, tiny_model: TinyModel
) -> None:
    folder = tiny_model(family)
    one = greedy(folder, "Hello there", max_tokens=40)
    other = greedy(folder, "What is the capital of France?", max_tokens=40)
    assert (len(one), len(other)) == (40, 40)
    assert len(set(one)) > 10
    assert one != other


@pytest.mark.parametrize("family", FAMILIES)
def test_its_tokenizer_gives_every_text_back(family: str, tiny_model: TinyModel) -> None:
    _, tokenizer = load(tiny_model(family))
    for text in TEXTS:
        token_ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(token_ids) == text


def test_the_vocabulary_may_be_smaller_than_the_model(tiny_model: TinyModel) -> None:
    _, tokenizer = load(tiny_model("qwen3"))
    config = json.loads((tiny_model("qwen3") / "config.json").read_text())
    assert (len(tokenizer), config["vocab_size"]) == (516, 544)


@pytest.mark.parametrize(
    ("family", "has_thinking", "has_tools"),
    [("llama", False, False), ("qwen3", True, True), ("qwen3_5", True, True)],
)
def test_only_some_think_and_call(
    family: str, has_thinking: bool, has_tools: bool, tiny_model: TinyModel
) -> None:
    _, tokenizer = load(tiny_model(family))
    assert (tokenizer.has_thinking, tokenizer.has_tool_calling) == (has_thinking, has_tools)


def test_the_session_makes_a_model_once(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert tiny_model("llama") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_the_same_whenever_it_is_built(
    family: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    build_model(tmp_path, family)
    for path in tiny_model(family).iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_another_seed_gives_other_weights(tiny_model: TinyModel, tmp_path: Path) -> None:
    build_model(tmp_path, "llama", seed=1)
    name = "model.safetensors"
    assert (tmp_path / name).read_bytes() != (tiny_model("llama") / name).read_bytes()


@pytest.mark.parametrize("family", ["llama", "llama4"])
def test_the_config_can_be_changed(family: str, tmp_path: Path) -> None:
    changes = {"max_position_embeddings": 64}
    build_model(tmp_path, family, generation_config={"temperature": 0.6}, **changes)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.get("text_config", config)["max_position_embeddings"] == 64 != CONTEXT_LENGTH
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert generation["temperature"] == 0.6
    assert generation["eos_token_id"] == config["eos_token_id"]


def test_a_family_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no family 'gpt9'; there are llama, llama-4bit"):
        build_model(tmp_path, "gpt9")
