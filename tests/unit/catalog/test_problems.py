"""What keeps a folder from being served is said in words, and the folder is still listed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxi_mlx.catalog.catalog import Catalog, Root
from tests.unit.catalog.folders import LLAMA, TENSORS, write_json, write_model, write_safetensors

REMOTE_CLASS = {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]}
NO_CODE = "which needs your trust; this version never runs a model folder's code"
INDEX = "model.safetensors.index.json"


def shard(number: int, total: int) -> str:
    return f"model-{number:05d}-of-{total:05d}.safetensors"


def sound(folder: Path) -> None:
    write_model(folder)


def no_weights(folder: Path) -> None:
    write_model(folder, tensors=None)


def gguf_beside_config(folder: Path) -> None:
    write_model(folder, tensors=None)
    (folder / "model-q4.gguf").write_bytes(b"GGUF")


def gguf_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "model-q4.gguf").write_bytes(b"GGUF")


def pytorch(folder: Path) -> None:
    write_model(folder, tensors=None)
    (folder / "pytorch_model.bin").write_bytes(b"PK")


def npz(folder: Path) -> None:
    write_model(folder, tensors=None)
    (folder / "weights.npz").write_bytes(b"PK")


def dangling(folder: Path) -> None:
    write_model(folder, tensors=None)
    (folder / "model.safetensors").symlink_to(folder / "gone")


def other_weight_name(folder: Path) -> None:
    write_model(folder, tensors=None)
    write_safetensors(folder / "weights.safetensors", TENSORS)


def one_shard_short(folder: Path) -> None:
    write_model(folder, tensors=None)
    write_safetensors(folder / shard(1, 2), {"a": 4})


def two_shards_short(folder: Path) -> None:
    write_model(folder, tensors=None)
    write_safetensors(folder / shard(2, 3), {"a": 4})


def shard_short_by_index(folder: Path) -> None:
    write_model(folder, tensors={"a": 4})
    weight_map = {"a": "model.safetensors", "b": "model-rest.safetensors"}
    write_json(folder / INDEX, {"weight_map": weight_map})


def shards_whole(folder: Path) -> None:
    write_model(folder, tensors=None)
    write_safetensors(folder / shard(1, 2), {"a": 4})
    write_safetensors(folder / shard(2, 2), {"b": 4})
    weight_map = {"a": shard(1, 2), "b": shard(2, 2)}
    write_json(folder / INDEX, {"weight_map": weight_map})


def index_of_the_original(folder: Path) -> None:
    write_model(folder)
    write_json(folder / INDEX, {"weight_map": {"a": shard(1, 2), "b": shard(2, 2)}})


def broken_index(folder: Path) -> None:
    write_model(folder)
    (folder / INDEX).write_text('{"weight_map": [')


def broken_config(folder: Path) -> None:
    write_model(folder)
    (folder / "config.json").write_text('{"model_type": "llama",')


def empty_config(folder: Path) -> None:
    write_model(folder)
    (folder / "config.json").write_text("")


def list_config(folder: Path) -> None:
    write_model(folder)
    write_json(folder / "config.json", [1])


def deep_config(folder: Path) -> None:
    write_model(folder)
    (folder / "config.json").write_text("[" * 200_000)


def binary_config(folder: Path) -> None:
    write_model(folder)
    (folder / "config.json").write_bytes(b'{"model_type": "\xff"}')


def config_with_byte_order_mark(folder: Path) -> None:
    write_model(folder)
    text = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(b"\xef\xbb\xbf" + text)


def huge_config(folder: Path) -> None:
    write_model(folder)
    os.truncate(folder / "config.json", 17_000_000)


def no_config(folder: Path) -> None:
    write_model(folder)
    (folder / "config.json").unlink()


def pipe_for_config(folder: Path) -> None:
    no_config(folder)
    os.mkfifo(folder / "config.json")


def no_model_type(folder: Path) -> None:
    write_model(folder, {"architectures": ["LlamaForCausalLM"]})


def code_of_its_own(folder: Path) -> None:
    write_model(folder, model_file="modeling.py")


def tokenizer_code(folder: Path) -> None:
    write_model(folder, model_type="kimi_k2")
    config = {"tokenizer_class": "OwnTokenizer", "auto_map": REMOTE_CLASS}
    write_json(folder / "tokenizer_config.json", config)


def tokenizer_code_not_needed(folder: Path) -> None:
    write_model(folder)
    config = {"tokenizer_class": "LlamaTokenizerFast", "auto_map": REMOTE_CLASS}
    write_json(folder / "tokenizer_config.json", config)


def auto_map_of_the_model(folder: Path) -> None:
    write_model(folder, auto_map={"AutoModelForCausalLM": "modeling_own.Own"})


def no_tokenizer(folder: Path) -> None:
    write_model(folder, files=("tokenizer_config.json",))


def sentencepiece(folder: Path) -> None:
    write_model(folder, files=())
    (folder / "tokenizer.model").write_bytes(b"\x0a")


def broken_tokenizer_config(folder: Path) -> None:
    write_model(folder)
    (folder / "tokenizer_config.json").write_text("{]")


def bitsandbytes(folder: Path) -> None:
    write_model(folder, quantization_config={"quant_method": "bitsandbytes"})


def unfinished_by_lm_studio(folder: Path) -> None:
    write_model(folder, tensors=None)
    write_safetensors(folder / shard(1, 2), {"a": 4})
    (folder / f"downloading_{shard(2, 2)}.part").write_bytes(b"")


def unfinished_to_a_folder(folder: Path) -> None:
    write_model(folder, tensors=None)
    begun = folder / ".cache" / "huggingface" / "download"
    begun.mkdir(parents=True)
    (begun / "abc.def.incomplete").write_bytes(b"")
    (begun / "ghi.def.incomplete").write_bytes(b"")


def nothing_but_a_begun_download(folder: Path) -> None:
    folder.mkdir()
    (folder / "model.safetensors.part").write_bytes(b"")


def whole_beside_an_old_part(folder: Path) -> None:
    write_model(folder)
    (folder / "model.safetensors.part").write_bytes(b"")


def adapter(folder: Path) -> None:
    write_json(folder / "adapter_config.json", {})
    write_safetensors(folder / "adapters.safetensors", {"a": 1})


def diffusion(folder: Path) -> None:
    write_json(folder / "model_index.json", {})
    write_json(folder / "unet" / "config.json", {"model_type": "llama"})
    write_safetensors(folder / "unet" / "model.safetensors", {"a": 1})


def apple_double(folder: Path) -> None:
    write_model(folder)
    (folder / "._model.safetensors").write_bytes(b"\x00\x05\x16\x07")


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (sound, None),
        (no_weights, "no weights: model*.safetensors is missing"),
        (
            gguf_beside_config,
            "GGUF file: not served; look for an MLX or safetensors version of the model",
        ),
        (gguf_alone, "GGUF file: not served; look for an MLX or safetensors version of the model"),
        (
            pytorch,
            "its weights are PyTorch files, not read here; look for a safetensors version",
        ),
        (npz, "its weights are in the old .npz form; look for a safetensors version"),
        (dangling, "model.safetensors is a link to a file that is gone"),
        (
            other_weight_name,
            "mlx-lm reads weights from model*.safetensors, not from weights.safetensors",
        ),
        (one_shard_short, "model-00002-of-00002.safetensors is missing"),
        (
            two_shards_short,
            "2 weight files are missing, the first is model-00001-of-00003.safetensors",
        ),
        (shard_short_by_index, "model-rest.safetensors is missing"),
        (shards_whole, None),
        (index_of_the_original, None),
        (broken_index, None),
        (
            broken_config,
            "config.json is not valid JSON (Expecting property name enclosed in double quotes: "
            "line 1 column 24 (char 23))",
        ),
        (empty_config, "config.json is not valid JSON (it is empty)"),
        (list_config, "config.json does not hold a JSON object"),
        (deep_config, "config.json is nested too deeply"),
        (binary_config, "config.json is not UTF-8 text"),
        (config_with_byte_order_mark, None),
        (huge_config, "config.json has 17 MB, more than the 16 MB that such a file may have"),
        (no_config, "config.json is missing beside the weights"),
        (pipe_for_config, "config.json is missing beside the weights"),
        (no_model_type, "config.json names no model_type"),
        (
            code_of_its_own,
            f"runs Python code of its own (modeling.py) when it is loaded, {NO_CODE}",
        ),
        (tokenizer_code, f"its tokenizer is Python code in the folder, {NO_CODE}"),
        (tokenizer_code_not_needed, None),
        (auto_map_of_the_model, None),
        (no_tokenizer, "no tokenizer: tokenizer.json is missing"),
        (sentencepiece, None),
        (
            broken_tokenizer_config,
            "tokenizer_config.json is not valid JSON (Expecting property name enclosed in double "
            "quotes: line 1 column 2 (char 1))",
        ),
        (
            bitsandbytes,
            "quantised by bitsandbytes, which mlx-lm can't read; look for an MLX version",
        ),
        (
            unfinished_by_lm_studio,
            "half-downloaded: model-00002-of-00002.safetensors is missing, and 1 file is "
            "unfinished; run the download again",
        ),
        (
            unfinished_to_a_folder,
            "half-downloaded: no weights: model*.safetensors is missing, and 2 files are "
            "unfinished; run the download again",
        ),
        (
            nothing_but_a_begun_download,
            "half-downloaded: config.json and the weights are missing, and 1 file is unfinished; "
            "run the download again",
        ),
        (whole_beside_an_old_part, None),
        (
            adapter,
            "an adapter, not a whole model; move it to ~/.maxi-mlx/adapters (docs/settings.md)",
        ),
        (diffusion, "an image generation pipeline: this version serves language models only"),
        (apple_double, None),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_problem(
    models: Path, catalog: Catalog, build: Callable[[Path], None], problem: str | None
) -> None:
    build(models / "m")
    assert [(entry.id, entry.problem) for entry in catalog.entries()] == [("m", problem)]


def test_bracket_in_a_path_is_named(tmp_path: Path) -> None:
    write_model(tmp_path / "m[1]")
    (entry,) = Catalog([Root(tmp_path, "given", "folders")]).entries()
    assert entry.problem == "mlx-lm takes a '[' in a path for a pattern: rename the folder"


def test_other_programs_config_is_no_model(models: Path, catalog: Catalog) -> None:
    write_json(models / "editor" / "config.json", {"theme": "dark"})
    assert catalog.entries() == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
CONFIG_KEYS = st.sampled_from(
    [
        "architectures",
        "auto_map",
        "id2label",
        "max_position_embeddings",
        "model_file",
        "model_type",
        "n_mels",
        "num_labels",
        "quantization",
        "quantization_config",
        "target",
        "text_config",
        "tokenizer_class",
        "vision_config",
    ]
)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(config=st.dictionaries(CONFIG_KEYS, JSON))
def test_any_values_in_a_config_leave_the_catalog_unharmed(
    tmp_path: Path, config: dict[str, object]
) -> None:
    write_model(tmp_path / "odd", {**LLAMA, **config})
    write_json(tmp_path / "odd" / "tokenizer_config.json", config)
    write_model(tmp_path / "sound")
    entries = Catalog([Root(tmp_path, "given", "folders")]).entries()
    assert [entry.id for entry in entries] == ["odd", "sound"]
    assert entries[1].problem is None
