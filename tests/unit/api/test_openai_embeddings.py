"""Bodies for /embeddings to requests, and vectors to bodies."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from openai.types import CreateEmbeddingResponse
from openai.types.embedding_create_params import EmbeddingCreateParams

from maxi_mlx.api.openai import embedding_body, parse_embedding
from maxi_mlx.api.openai.embeddings import EmbeddingBody
from maxi_mlx.api.openai.fields import EMBEDDING_FIELDS
from maxi_mlx.core.embedding import MAX_INPUTS, EmbeddingResult
from maxi_mlx.core.errors import InvalidRequest


def parse(**body: Any) -> Any:
    return parse_embedding(json.dumps(body).encode(), request_id="r")


@pytest.mark.parametrize(
    ("wire", "inputs"),
    [
        ("a text", ("a text",)),
        (["a", "b", "a"], ("a", "b", "a")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
    ids=["text", "texts", "token ids", "lists of token ids"],
)
@pytest.mark.clients(90)
def test_every_form_of_input(wire: Any, inputs: tuple[Any, ...]) -> None:
    call = parse(input=wire, model="m")
    assert call.request.inputs == inputs
    assert (call.request.model, call.encoding_format) == ("m", "float")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", None]}, "input[1]"),
        ({"input": [[1], []]}, "input[1]"),
        ({"input": [1, -1]}, "input"),
        ({"input": ["a", 1]}, "input"),
        ({"input": ["a", [1]]}, "input"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": -5}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "input_type": "image"}, "input_type"),
        ({"input": "a", "input_type": "query", "prompt_name": "q"}, "input_type"),
        ({"input": "a", "truncate": "START"}, "truncate"),
        ({"input": "a", "model": "m" * 2000}, "model"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**body)
    assert caught.value.param == param


def test_as_many_inputs_as_openai_takes() -> None:
    assert len(parse(input=["a"] * MAX_INPUTS).request.inputs) == MAX_INPUTS


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"truncate": True}, "truncate", True),
        ({"truncate": "END"}, "truncate", True),
        ({"truncate": "none"}, "truncate", False),
        ({"truncate": None}, "truncate", False),
        ({"input_type": "search_query"}, "input_type", "query"),
        ({"input_type": "passage"}, "input_type", "document"),
        ({"prompt_name": "clustering"}, "prompt_name", "clustering"),
        ({"dimensions": 64}, "dimensions", 64),
        ({"user": 5}, "dimensions", None),
    ],
)
def test_options(body: dict[str, Any], field: str, value: object) -> None:
    assert getattr(parse(input="a", **body).request, field) == value


def test_the_table_is_what_is_read() -> None:
    read = {field.name for field in msgspec.structs.fields(EmbeddingBody)}
    honoured = {name for name, field in EMBEDDING_FIELDS.items() if field.treatment == "honoured"}
    assert read == honoured
    assert set(EmbeddingCreateParams.__annotations__) <= set(EMBEDDING_FIELDS)


ROWS = np.array([[0.5, -1.25], [3e-9, 1.0]], dtype=np.float32)
RESULT = EmbeddingResult(model="m", rows=ROWS, prompt_tokens=7)


@pytest.mark.clients(89)
def test_floats_come_back_to_the_digit() -> None:
    body = embedding_body(RESULT, "float")
    written = CreateEmbeddingResponse.model_validate(json.loads(body), strict=True)
    assert [item.index for item in written.data] == [0, 1]
    assert np.array_equal(np.array([i.embedding for i in written.data], dtype=np.float32), ROWS)
    assert (written.usage.prompt_tokens, written.usage.total_tokens) == (7, 7)


@pytest.mark.clients(89)
def test_base64_is_little_endian_float32() -> None:
    data = json.loads(embedding_body(RESULT, "base64"))["data"]
    rows = [struct.unpack("<2f", base64.b64decode(item["embedding"])) for item in data]
    assert np.array_equal(np.array(rows, dtype=np.float32), ROWS)
