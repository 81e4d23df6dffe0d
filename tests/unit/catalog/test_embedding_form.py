"""How an embedding model pools, by its own files, and by its family where they are silent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.models import EmbeddingForm, ModelEntry
from tests.unit.catalog.folders import write_json, write_model

BERT = {"model_type": "bert", "architectures": ["BertModel"], "max_position_embeddings": 512}
QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}


def module(index: int, kind: str, path: str = "") -> dict[str, Any]:
    return {"idx": index, "path": path, "type": f"sentence_transformers.models.{kind}"}


TRANSFORMER, POOLING = module(0, "Transformer"), module(1, "Pooling", "1_Pooling")
NORMALIZE = module(2, "Normalize", "2_Normalize")


def write_modules(folder: Path, *modules: Any) -> None:
    (folder / "modules.json").write_text(json.dumps(modules))


def form(catalog: Catalog) -> EmbeddingForm:
    entry = entry_of(catalog)
    assert entry.problem is None
    assert entry.embedding is not None
    return entry.embedding


def entry_of(catalog: Catalog) -> ModelEntry:
    (entry,) = catalog.entries()
    return entry


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ("cls",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, ("cls", "mean")),
        ({"pooling_mode_lasttoken": True}, ("lasttoken",)),
        ({"pooling_mode_cls_token": False}, ("mean",)),
        ({"pooling_mode": "max"}, ("max",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
    ],
)
def test_pooling(models: Path, catalog: Catalog, config: Any, pooling: Any) -> None:
    write_model(models / "m", BERT)
    write_modules(models / "m", TRANSFORMER, POOLING, NORMALIZE)
    write_json(models / "m" / "1_Pooling/config.json", config)
    found = form(catalog)
    assert (found.pooling, found.steps) == (pooling, ("normalize",))
    assert found.source == "1_Pooling/config.json"


def test_steps_are_those_of_the_files_alone(models: Path, catalog: Catalog) -> None:
    write_model(models / "m", BERT)
    dense = module(2, "Dense", "2_Dense")
    write_modules(models / "m", TRANSFORMER, POOLING, dense)
    write_json(models / "m" / "1_Pooling/config.json", {"include_prompt": False})
    write_json(models / "m" / "2_Dense/config.json", {})
    (models / "m" / "2_Dense/model.safetensors").write_bytes(b"x")
    found = form(catalog)
    assert (found.steps, found.pools_prompt) == (("2_Dense",), False)


def test_prompts_and_the_longest_text(models: Path, catalog: Catalog) -> None:
    write_model(models / "m", BERT)
    settings = {"prompts": {"query": "Q: ", "document": ""}, "default_prompt_name": "query"}
    write_json(models / "m" / "config_sentence_transformers.json", settings)
    sentence = {"max_seq_length": 256, "do_lower_case": True}
    write_json(models / "m" / "sentence_bert_config.json", sentence)
    found = form(catalog)
    assert found.prompts == (("query", "Q: "), ("document", ""))
    assert (found.default_prompt, found.lowers_case) == ("query", True)
    assert entry_of(catalog).context_length == 256


@pytest.mark.parametrize(
    ("name", "config", "pooling", "source"),
    [
        ("bge-small-en-v1.5", BERT, "cls", "default of BGE"),
        ("all-MiniLM-L6-v2", BERT, "mean", "default of bert"),
        ("snowflake-arctic-embed-m", BERT, "cls", "default of arctic-embed"),
        ("Qwen3-Embedding-0.6B-8bit", QWEN3, "lasttoken", "default of Qwen3-Embedding"),
        ("some-embedder", QWEN3, "lasttoken", "default of language models"),
    ],
)
def test_families_without_files(
    models: Path, catalog: Catalog, name: str, config: Any, pooling: str, source: str
) -> None:
    write_model(models / name, config)
    found = form(catalog)
    assert (found.pooling, found.source, found.steps) == ((pooling,), source, ("normalize",))


def test_dimensions_are_what_the_files_or_the_family_say(models: Path, catalog: Catalog) -> None:
    write_model(models / "m", {**BERT, "matryoshka_dimensions": [256, 64, "x"]})
    assert form(catalog).dimensions == (64, 256)
    write_model(models / "m", {**BERT, "is_matryoshka": True})
    assert form(catalog).least_dimension == 1
    write_model(models / "m", BERT)
    assert (form(catalog).dimensions, form(catalog).least_dimension) == ((), None)


def test_roberta_has_positions_for_two_tokens_less(models: Path, catalog: Catalog) -> None:
    config = {"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    write_model(models / "m", config)
    assert entry_of(catalog).context_length == 512


@pytest.mark.parametrize(
    ("modules", "problem"),
    [
        ({}, "modules.json does not hold a JSON list"),
        ([], "modules.json does not hold a list of modules"),
        ([module(0, "Transformer", "0_Transformer")], "has the model in the folder 0_Transformer"),
        ([TRANSFORMER, module(1, "Pooling", "../x")], "names the folder ../x, which is missing"),
        ([TRANSFORMER, module(1, "WordWeights", "")], "a step 'WordWeights', which isn't served"),
        ([TRANSFORMER, POOLING, module(2, "Dense", "1_Pooling")], "model.safetensors is missing"),
        ([TRANSFORMER, POOLING, module(2, "Pooling", "1_Pooling")], "pools twice"),
    ],
)
def test_what_can_not_be_followed_is_a_fault(
    models: Path, catalog: Catalog, modules: Any, problem: str
) -> None:
    write_model(models / "m", BERT)
    write_json(models / "m" / "1_Pooling/config.json", {})
    (models / "m" / "modules.json").write_text(json.dumps(modules))
    assert problem in str(entry_of(catalog).problem)


def test_an_unknown_pooling_is_a_fault(models: Path, catalog: Catalog) -> None:
    write_model(models / "m", BERT)
    write_json(models / "m" / "1_Pooling/config.json", {"pooling_mode": "attention"})
    assert "pooling attention" in str(entry_of(catalog).problem)


def test_a_change_of_the_pooling_is_seen(models: Path, catalog: Catalog) -> None:
    write_model(models / "m", BERT)
    write_json(models / "m" / "1_Pooling/config.json", {"pooling_mode": "cls"})
    assert form(catalog).pooling == ("cls",)
    write_json(models / "m" / "1_Pooling/config.json", {"pooling_mode": "mean"})
    assert form(catalog).pooling == ("mean",)
