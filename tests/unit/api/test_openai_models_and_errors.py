"""The bodies of model lists and of errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from openai.types import Model

from maxi_mlx.api.openai import error_body, model_body, models_body
from maxi_mlx.core import errors
from maxi_mlx.core.errors import InvalidRequest, MaxiError, ModelNotFound
from maxi_mlx.core.models import EmbeddingForm, ModelEntry

ENTRY = ModelEntry(
    id="Qwen3-0.6B",
    path=Path("/models/Qwen3-0.6B"),
    kind="language",
    org_name="mlx-community/Qwen3-0.6B",
    source="hub cache",
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    weight_bytes=335_000_000,
    quantization="4-bit",
    context_length=40960,
    created=1700000000,
)
BARE = replace(ENTRY, id="mine", org_name=None, quantization=None, context_length=None)


@pytest.mark.clients(50)
def test_a_model() -> None:
    assert json.loads(model_body(ENTRY)) == {
        "id": "Qwen3-0.6B",
        "object": "model",
        "created": 1700000000,
        "owned_by": "mlx-community",
        "kind": "language",
        "abilities": ["chat", "completions"],
        "context_length": 40960,
        "max_model_len": 40960,
        "quantization": "4-bit",
    }


@pytest.mark.clients(50)
def test_what_is_not_known_of_a_model_is_absent() -> None:
    assert json.loads(model_body(BARE)) == {
        "id": "mine",
        "object": "model",
        "created": 1700000000,
        "owned_by": "local",
        "kind": "language",
        "abilities": ["chat", "completions"],
    }


def test_an_embedding_model_says_how_it_pools() -> None:
    form = EmbeddingForm(
        pooling=("cls", "mean"), source="1_Pooling/config.json", prompts=(("query", "Q: "),)
    )
    written = json.loads(model_body(replace(BARE, kind="embedding", embedding=form)))
    assert written["abilities"] == ["embeddings", "rerank", "score"]
    assert written["pooling"] == "cls+mean"
    assert written["pooling_source"] == "1_Pooling/config.json"
    assert written["prompts"] == ["query"]


@pytest.mark.clients(50, 51)
def test_the_list() -> None:
    assert json.loads(models_body([])) == {"object": "list", "data": []}
    listed = json.loads(models_body([ENTRY, BARE]))
    assert listed["object"] == "list"
    assert [Model.model_validate(model, strict=True).id for model in listed["data"]] == [
        "Qwen3-0.6B",
        "mine",
    ]


def test_a_path_never_leaves() -> None:
    assert b"/models" not in models_body([ENTRY, BARE])


@pytest.mark.parametrize(
    ("error", "envelope"),
    [
        (
            InvalidRequest("'n' is \"x\".\n", param="n"),
            {"message": "'n' is \"x\".\n", "type": "invalid_request_error"}
            | {"param": "n", "code": None},
        ),
        (
            ModelNotFound("No model 'é'."),
            {"message": "No model 'é'.", "type": "invalid_request_error"}
            | {"param": None, "code": "model_not_found"},
        ),
        (
            MaxiError("Broken.", code="odd"),
            {"message": "Broken.", "type": "server_error", "param": None, "code": "odd"},
        ),
    ],
    ids=["param", "code", "own code"],
)
@pytest.mark.clients(46)
def test_an_error(error: MaxiError, envelope: dict[str, object]) -> None:
    assert json.loads(error_body(error)) == {"error": envelope}


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MaxiError)
    ],
)
@pytest.mark.clients(46)
def test_every_error_has_the_four_keys(kind: type[MaxiError]) -> None:
    envelope = json.loads(error_body(kind("words")))["error"]
    assert list(envelope) == ["message", "type", "param", "code"]
    assert envelope["message"] == "words"
    assert isinstance(envelope["type"], str)
