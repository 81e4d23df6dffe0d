"""The benchmarks' models: answers that never end by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measuring.chat_models import CHAT_CONFIGS, build_chat_model
from measuring.models import TINY_CONFIG, BenchModel, build_tiny, endless_copy, twins

from maxi_mlx.catalog.catalog import Catalog, Root
from tests.conftest import TinyModel
from tests.models.folder import prepare_device

LAST_SPECIAL = (2, "<|im_start|>")  # the last that tiny-llama's tokenizer has no role for


def ends(folder: Path) -> set[tuple[object, object]]:
    """Every end that the folder's files name, as an id or as a token."""
    config, generation, tokenizer = (
        json.loads((folder / name).read_text())
        for name in ("config.json", "generation_config.json", "tokenizer_config.json")
    )
    return {
        (config["eos_token_id"], tokenizer["eos_token"]),
        (generation["eos_token_id"], tokenizer["eos_token"]),
    }


def test_a_copy_without_an_end(tiny_model: TinyModel, tmp_path: Path) -> None:
    source = tiny_model("llama")
    before = (source / "config.json").read_bytes()
    model = endless_copy(source, tmp_path / "0")
    assert model.name == "tiny-llama"
    assert not model.is_tiny
    assert ends(model.folder) == {LAST_SPECIAL}
    assert (model.folder / "model.safetensors").resolve() == source / "model.safetensors"
    assert (source / "config.json").read_bytes() == before
    assert not any((source / name).is_symlink() for name in ("config.json", "tokenizer.json"))


def test_no_token_left_for_an_end(tiny_model: TinyModel, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in tiny_model("llama").iterdir():
        (source / path.name).symlink_to(path)
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    (source / "tokenizer.json").unlink()
    tokenizer["added_tokens"] = tokenizer["added_tokens"][-1:]  # <|im_end|>
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(SystemExit, match="every special token of its tokenizer is in use"):
        endless_copy(source, tmp_path / "0")


def test_tiny_llama(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = build_tiny(tiny_model("llama"), tmp_path / "0")
    assert model.is_tiny
    assert ends(model.folder) == {LAST_SPECIAL}
    prepare_device()
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.generate import stream_generate

    loaded, tokenizer = load(str(model.folder))[:2]
    assert loaded.args.vocab_size == 512  # its tokenizer's
    assert loaded.args.max_position_embeddings == TINY_CONFIG["max_position_embeddings"] > 8192
    assert tokenizer.eos_token_ids == {LAST_SPECIAL[0]}
    mx.random.seed(0)
    answer = [r.token for r in stream_generate(loaded, tokenizer, "hello", max_tokens=200)]
    assert len(answer) == 200
    assert not set(answer) & set(range(4))  # no special token


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHAT_CONFIGS)
def test_a_chat_model_writes_what_its_text_is_read_as(
    kind: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    model = build_chat_model(kind, tiny_model("llama"), tmp_path)
    assert ends(model.folder) == {(3, "<|im_end|>")}  # its template's
    prepare_device()
    from mlx_lm import load
    from mlx_lm.generate import stream_generate
    from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache

    loaded, tokenizer = load(str(model.folder))[:2]
    responses = list(stream_generate(loaded, tokenizer, "hello there", max_tokens=200))
    answer = [response.token for response in responses]
    assert len(answer) == 200
    text = tokenizer.decode(answer)
    assert text.startswith(" ")
    assert tokenizer.encode(text, add_special_tokens=False) == answer
    cache = make_prompt_cache(loaded)
    stream = stream_generate(loaded, tokenizer, "hello there", max_tokens=200, prompt_cache=cache)
    assert len(list(stream)) == 200
    assert not can_trim_prompt_cache(cache)


def test_twins_are_one_model_under_two_names(tiny_model: TinyModel, tmp_path: Path) -> None:
    model = BenchModel(name="tiny", folder=tiny_model("llama"), is_tiny=True)
    assert twins(model, tmp_path) == ("tiny-one", "tiny-two")
    entries = Catalog([Root(tmp_path, "test", "folders")]).entries()
    assert [(entry.id, entry.problem) for entry in entries] == [
        ("tiny-one", None),
        ("tiny-two", None),
    ]
