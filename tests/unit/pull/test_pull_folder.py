"""A GGUF becomes a folder with the same values, names as MLX has them, and the same tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import dequantize
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from maxi_mlx.catalog.pull.affine import AffineGroups
from maxi_mlx.catalog.pull.folder import NEEDED_FILES, write_folder
from maxi_mlx.catalog.pull.gguf_file import rotary_row_order
from maxi_mlx.catalog.pull.source import EmbeddedModel, Precision
from maxi_mlx.core.errors import SetupError
from tests.unit.pull.conftest import Remembered
from tests.unit.pull.test_pull_affine import unpacked
from tests.unit.pull.tiny import FINE_NORM, LAYERS, NORM, TEMPLATE, TinyFile, write_tiny

NUM_TENSORS = 2 + 9 * LAYERS


@pytest.fixture
def convert(tmp_path: Path, model: EmbeddedModel, remembered: Remembered) -> Any:
    def run(gguf: Path, precision: Precision = "float32") -> Path:
        folder = tmp_path / "folder"
        folder.mkdir()
        write_folder(folder, gguf, model=model, precision=precision, progress=remembered)
        return folder

    return run


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_float32_holds_the_values_of_the_blocks(
    convert: Any, tiny_file: TinyFile, remembered: Remembered
) -> None:
    weights = load_file(convert(tiny_file.path) / "model.safetensors")
    assert len(weights) == NUM_TENSORS
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}
    for path, rows in tiny_file.rows.items():
        expected = dequantize(rows, tiny_file.kinds[path])
        np.testing.assert_array_equal(weights[f"{path}.weight"], expected, err_msg=path)
    np.testing.assert_array_equal(weights["model.norm.weight"], FINE_NORM)
    assert remembered.jobs == [("Converting to float32", NUM_TENSORS, 0)]
    assert (remembered.counts, remembered.num_done) == ([NUM_TENSORS], 1)


def test_4bit_holds_the_blocks_themselves(convert: Any, tiny_file: TinyFile) -> None:
    folder = convert(tiny_file.path, "4bit")
    weights = load_file(folder / "model.safetensors")
    for path, rows in tiny_file.rows.items():
        parts = (weights.pop(f"{path}.{part}") for part in ("weight", "scales", "biases"))
        bits = 8 if tiny_file.kinds[path] is Kind.Q8_0 else 4
        np.testing.assert_array_equal(
            unpacked(AffineGroups(*parts), bits),
            dequantize(rows, tiny_file.kinds[path]),
            err_msg=path,
        )
    # A norm stays in float32 only where half floats would change it.
    assert weights.pop("model.norm.weight").dtype == np.float32
    assert len(weights) == 2 * LAYERS
    for norm in weights.values():
        assert norm.dtype == np.float16
        np.testing.assert_array_equal(norm.astype(np.float32), NORM)
    assert read_json(folder / "config.json")["quantization"] == {
        "group_size": 32,
        "bits": 4,
        "mode": "affine",
        "model.embed_tokens": {"group_size": 32, "bits": 8, "mode": "affine"},
    }


def test_config(convert: Any, tiny_file: TinyFile) -> None:
    folder = convert(tiny_file.path)
    assert read_json(folder / "config.json") == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-05,
        "rope_theta": 100000.0,
        "vocab_size": 264,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    assert read_json(folder / "generation_config.json") == {
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "do_sample": True,
        "temperature": 0.5,
    }
    assert {path.name for path in folder.iterdir()} == {
        *NEEDED_FILES,
        "generation_config.json",
        "README.md",
    }
    readme = (folder / "README.md").read_text()
    for words in ("license: apache-2.0", "https://example.org/tiny", "A tiny model for tests."):
        assert words in readme


def test_tokenizer_round_trips_and_splits_digits(convert: Any, tiny_file: TinyFile) -> None:
    folder = convert(tiny_file.path)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoding = tokenizer.encode("<|im_start|>hello 12é<|im_end|>")
    assert encoding.tokens == ["<|im_start|>", "hello", "Ġ", "1", "2", "Ã", "©", "<|im_end|>"]
    assert (encoding.ids[0], encoding.ids[-1]) == (1, 2)
    assert tokenizer.decode(encoding.ids) == "hello 12é"
    assert tokenizer.get_vocab_size() == 264
    settings = read_json(folder / "tokenizer_config.json")
    assert settings["bos_token"] == "<|im_start|>"
    assert settings["eos_token"] == settings["pad_token"] == "<|im_end|>"
    assert settings["unk_token"] == "<|endoftext|>"
    assert settings["model_max_length"] == 128
    assert list(settings["added_tokens_decoder"]) == ["0", "1", "2"]
    assert (folder / "chat_template.jinja").read_text() == TEMPLATE


def test_rotary_rows_are_put_back() -> None:
    """Each head's turns (0, 1), (2, 3) … become halves: what GGUF has at 2j and 2j+1 belongs
    at j and j + half."""
    assert rotary_row_order(16, 2).tolist() == [
        *(0, 2, 4, 6, 1, 3, 5, 7),
        *(8, 10, 12, 14, 9, 11, 13, 15),
    ]


@pytest.mark.parametrize(
    ("difference", "complaint"),
    [
        pytest.param({"architecture": "mamba"}, "of the kind 'mamba'", id="architecture"),
        pytest.param({"splitting": "qwen2"}, "tokenizer is of the kind", id="tokenizer"),
        pytest.param({"token_type": 4}, r"types \[3, 4\]", id="token type"),
        pytest.param(
            {"extra": ("blk.0.attn_sinks.weight", Kind.Q8_0)}, "no place", id="unknown tensor"
        ),
        pytest.param(
            {"extra": ("output.weight", Kind.Q5_0)}, "stored as Q5_0", id="unknown block format"
        ),
    ],
)
def test_what_is_not_known_is_refused(
    difference: dict[str, Any], complaint: str, convert: Any, tmp_path: Path
) -> None:
    gguf = write_tiny(tmp_path / "other.gguf", **difference).path
    with pytest.raises(SetupError, match=complaint):
        convert(gguf)
    assert not (tmp_path / "folder" / "config.json").exists()
