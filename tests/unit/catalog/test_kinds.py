"""What kind of model a folder holds, and what its config says of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog import architectures
from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.catalog.model_config import context_length, quantization
from maxi_mlx.core.models import ModelEntry
from tests.conftest import TinyModel
from tests.unit.catalog.folders import LLAMA, write_json, write_model

LANGUAGE_ONLY = "this version serves language models only"
VISION_TENSORS = {"vision_tower.patch.weight": 8, "language_model.lm_head.weight": 8}


def only_entry(catalog: Catalog) -> ModelEntry:
    (entry,) = catalog.entries()
    return entry


@pytest.mark.parametrize(
    ("name", "config", "files", "kind", "problem"),
    [
        pytest.param("m", LLAMA, (), "language", None, id="llama"),
        pytest.param("m", {"model_type": "mistral"}, (), "language", None, id="another name"),
        pytest.param(
            "m",
            {"model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"]},
            (),
            "language",
            None,
            id="name by architecture",
        ),
        pytest.param(
            "m",
            {"model_type": "gpt99", "architectures": ["Gpt99ForCausalLM"]},
            (),
            "language",
            "model type 'gpt99' is not among the models mlx-lm loads",
            id="unknown type",
        ),
        pytest.param(
            "m",
            {"model_type": "cache", "architectures": ["CacheForCausalLM"]},
            (),
            "language",
            "model type 'cache' is not among the models mlx-lm loads",
            id="a part of mlx-lm that is no model",
        ),
        pytest.param(
            "m",
            {"model_type": "../utils", "architectures": ["XForCausalLM"]},
            (),
            "language",
            "model type '../utils' is not among the models mlx-lm loads",
            id="a path as a type",
        ),
        pytest.param(
            "m",
            {"model_type": "bert", "architectures": ["BertModel"]},
            (),
            "embedding",
            None,
            id="bert",
        ),
        pytest.param(
            "m",
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
            ("config_sentence_transformers.json",),
            "embedding",
            None,
            id="sentence-transformers files",
        ),
        pytest.param(
            "m",
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
            ("1_Pooling/config.json",),
            "embedding",
            None,
            id="a pooling folder",
        ),
        pytest.param(
            "Qwen3-Embedding-0.6B-4bit",
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
            (),
            "embedding",
            None,
            id="embedding by name",
        ),
        pytest.param(
            "m",
            {"model_type": "nomic_bert", "architectures": ["NomicBertModel"]},
            (),
            "embedding",
            "an embedding model of the type 'nomic_bert', which isn't among those served here",
            id="an encoder that isn't served",
        ),
        pytest.param(
            "m",
            {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "relu"},
            (),
            "embedding",
            "its hidden_act is 'relu', which isn't served here",
            id="an encoder of another form",
        ),
        pytest.param(
            "gte-Qwen2-embedding",
            {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "is_causal": False},
            (),
            "embedding",
            "an embedding model of the type 'qwen2' that reads in both directions, which isn't "
            "served here",
            id="a language model that looks ahead",
        ),
        pytest.param(
            "bge-reranker-v2-gemma",
            {"model_type": "gemma", "architectures": ["GemmaForCausalLM"]},
            (),
            "reranker",
            "a reranker of the type 'gemma': of language models, only Qwen3's",
            id="another language model as a reranker",
        ),
        pytest.param("Embedded-Coder", LLAMA, (), "language", None, id="embedded is no embedding"),
        pytest.param(
            "m",
            {
                "model_type": "xlm-roberta",
                "architectures": ["XLMRobertaForSequenceClassification"],
                "id2label": {"0": "LABEL_0"},
            },
            (),
            "reranker",
            None,
            id="cross-encoder",
        ),
        pytest.param(
            "Qwen3-Reranker-0.6B",
            {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
            (),
            "reranker",
            None,
            id="reranker by name",
        ),
        pytest.param(
            "m",
            {
                "model_type": "qwen2",
                "architectures": ["Qwen2ForSequenceClassification"],
                "id2label": {"0": "ham", "1": "spam"},
            },
            (),
            "unknown",
            "not a model that writes text (Qwen2ForSequenceClassification): " + LANGUAGE_ONLY,
            id="text classifier",
        ),
        pytest.param(
            "m",
            {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]},
            (),
            "speech",
            None,
            id="whisper",
        ),
        pytest.param(
            "m",
            {"n_mels": 80, "n_audio_state": 384},
            (),
            "speech",
            None,
            id="whisper of mlx-whisper",
        ),
        pytest.param(
            "m",
            {"target": "nemo.collections.asr.models.EncDecRNNTBPEModel"},
            (),
            "speech",
            "a speech model (an unknown type): of these, only Whisper models are served",
            id="parakeet",
        ),
        pytest.param(
            "m",
            {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
            (),
            "unknown",
            "model type 't5' is not among the models mlx-lm loads",
            id="encoder and decoder",
        ),
    ],
)
def test_kind(
    models: Path,
    catalog: Catalog,
    name: str,
    config: Mapping[str, Any],
    files: tuple[str, ...],
    kind: str,
    problem: str | None,
) -> None:
    write_model(models / name, config)
    for file in files:
        write_json(models / name / file, {})
    entry = only_entry(catalog)
    assert (entry.kind, entry.problem) == (kind, problem)


@pytest.mark.parametrize(
    ("model_type", "tensors", "kind", "problem"),
    [
        pytest.param("gemma3", VISION_TENSORS, "vision", None, id="its text part is served"),
        pytest.param("qwen2_5_vl", VISION_TENSORS, "vision", None, id="by another name"),
        pytest.param("gemma3", {"lm_head.weight": 8}, "language", None, id="vision cut out"),
        pytest.param(
            "paligemma",
            VISION_TENSORS,
            "vision",
            "model type 'paligemma' is not among the vision models' language parts mlx-lm loads",
            id="unknown to mlx-lm",
        ),
    ],
)
def test_vision_kind(
    models: Path,
    catalog: Catalog,
    model_type: str,
    tensors: Mapping[str, int],
    kind: str,
    problem: str | None,
) -> None:
    config = {"model_type": model_type, "vision_config": {"hidden_size": 8}}
    write_model(models / "m", config, tensors=tensors)
    entry = only_entry(catalog)
    assert (entry.kind, entry.problem) == (kind, problem)


@pytest.mark.parametrize(
    "family", ["llama", "llama-4bit", "llama-spm", "gemma3", "lfm2", "qwen3_5", "mamba2", "llama4"]
)
def test_models_that_mlx_lm_loads_can_be_served(tiny_model: TinyModel, family: str) -> None:
    folder = tiny_model(family)
    entry = only_entry(Catalog([Root(folder, "given", "folders")]))
    assert (entry.id, entry.kind, entry.problem) == (f"tiny-{family}", "language", None)
    assert entry.quantization == ("4-bit" if family == "llama-4bit" else None)
    # The tensors are all that is in the file but for its header.
    file_bytes = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    assert 0.9 * file_bytes < entry.weight_bytes < file_bytes


def test_entry_carries_what_the_files_say(models: Path, catalog: Catalog) -> None:
    config = {**LLAMA, "quantization": {"group_size": 64, "bits": 4}}
    folder = write_model(models / "org" / "Tiny", config)
    entry = only_entry(catalog)
    assert entry == ModelEntry(
        id="Tiny",
        path=folder,
        kind="language",
        org_name="org/Tiny",
        source=str(models),
        model_type="llama",
        architecture="LlamaForCausalLM",
        weight_bytes=96,
        quantization="4-bit",
        context_length=2048,
        created=int((folder / "tokenizer_config.json").stat().st_mtime),
    )


@pytest.mark.parametrize(
    ("config", "tokenizer_config", "expected"),
    [
        ({"max_position_embeddings": 4096}, {}, 4096),
        ({"n_positions": 1024}, {}, 1024),
        ({"max_seq_len": 32768}, {}, 32768),
        ({"text_config": {"max_position_embeddings": 131072}}, {}, 131072),
        ({"max_position_embeddings": 4096, "sliding_window": 512}, {}, 4096),
        # DeepSeek-R1's distillations: the tokenizer's number is not what the model reads
        ({"max_position_embeddings": 131072}, {"model_max_length": 16384}, 131072),
        ({}, {"model_max_length": 2048}, 2048),
        ({}, {"model_max_length": 1000000000000000019884624838656}, None),
        ({"max_position_embeddings": True}, {}, None),
        ({"max_position_embeddings": "4096"}, {}, None),
        ({"max_position_embeddings": -1}, {}, None),
        ({"text_config": [1]}, {}, None),
    ],
)
def test_context_length(
    config: Mapping[str, Any], tokenizer_config: Mapping[str, Any], expected: int | None
) -> None:
    assert context_length(config, tokenizer_config) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"quantization": None}, None),
        ({"quantization": {"group_size": 64, "bits": 8}}, "8-bit"),
        ({"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}, "4-bit"),
        ({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "4-bit"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
        ({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, "fp8"),
        ({"quantization": {"bits": "four"}}, "quantised"),
    ],
)
def test_quantization(config: Mapping[str, Any], expected: str | None) -> None:
    assert quantization(config) == expected


def test_mlx_lms_own_tables_are_read_right() -> None:
    from mlx_lm.utils import MODEL_ARCHITECTURE_REMAPPING, MODEL_REMAPPING

    assert architectures._table("MODEL_REMAPPING") == MODEL_REMAPPING
    assert architectures._table("MODEL_ARCHITECTURE_REMAPPING") == MODEL_ARCHITECTURE_REMAPPING
    assert all(architectures.is_supported(name, ()) for name in MODEL_REMAPPING)


@pytest.mark.parametrize(
    ("model_type", "is_supported"),
    [
        ("qwen3_5", True),
        ("lfm2-vl", True),
        ("solar_open", True),  # takes its model from another file
        ("qwen3_5_moe", True),
        ("Qwen3", False),
        ("base", False),
        ("switch_layers", False),
        ("os", False),
        ("llama.py", False),
        ("", False),
    ],
)
def test_model_types_of_mlx_lm(model_type: str, *, is_supported: bool) -> None:
    assert architectures.is_supported(model_type, ()) is is_supported


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("LlamaTokenizerFast", True),
        ("Qwen2Tokenizer", True),
        ("PreTrainedTokenizerFast", True),
        ("ernie4_5", True),
        ("TikTokenTokenizer", False),
        ("InternLM2Tokenizer", False),
        ("kimi_k2", False),
    ],
)
def test_tokenizer_classes_of_transformers(name: str, *, is_known: bool) -> None:
    assert architectures.has_tokenizer_class(name) is is_known


YARN = {"mrope_section": [2, 3, 3], "type": "yarn"}


@pytest.mark.parametrize(
    ("config", "file", "sees"),
    [
        pytest.param({"model_type": "gemma3"}, "preprocessor_config.json", True, id="sees"),
        pytest.param({"model_type": "smolvlm"}, "processor_config.json", True, id="newer file"),
        pytest.param({"model_type": "gemma3"}, "other.json", False, id="no settings"),
        pytest.param({"model_type": "kimi_vl"}, "preprocessor_config.json", False, id="unknown"),
        pytest.param(
            {"model_type": "qwen2_5_vl", "rope_scaling": YARN},
            "preprocessor_config.json",
            False,
            id="stretched positions",
        ),
    ],
)
def test_who_reads_images(
    models: Path, catalog: Catalog, config: dict[str, object], file: str, sees: bool
) -> None:
    config = {**config, "vision_config": {"hidden_size": 8}}
    write_model(models / "m", config, tensors=VISION_TENSORS)
    write_json(models / "m" / file, {})
    assert only_entry(catalog).sees is sees
