"""OpenAI's SDK, as it asks for embeddings: base64 unless told otherwise."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest

from tests.clients.conftest import Served, serving
from tests.vectors import tiny
from tests.vectors.make_reference import TINY

MODEL = "tiny-qwen3-embedding"


@pytest.fixture(scope="module")
def served_vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("vectors")
    tiny.build(folder / MODEL, "qwen3")
    with serving(folder) as served:
        yield served


@pytest.fixture
def client(served_vectors: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served_vectors.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.clients(89, 90)
@pytest.mark.parametrize("encoding", [openai.omit, "float", "base64"], ids=["as it is", "f", "b"])
def test_token_ids_in_every_encoding(client: openai.OpenAI, encoding: object) -> None:
    answer = client.embeddings.create(
        model=MODEL,
        input=tiny.rows(),
        encoding_format=encoding,  # type: ignore[arg-type]
    )
    rows = [item.embedding for item in answer.data]
    if encoding == "base64":  # asked for outright, the SDK hands it over as it came
        rows = [np.frombuffer(base64.b64decode(row), "<f4") for row in rows]
    assert np.abs(np.array(rows) - np.load(TINY)["qwen3"]).max() < 2e-6
    assert answer.usage.prompt_tokens == sum(map(len, tiny.rows()))


@pytest.mark.clients(90)
def test_an_empty_text_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=MODEL, input=["a", ""])
    assert caught.value.param == "input[1]"


def test_a_chat_model_is_not_one_for_embeddings(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="is an embedding model"):
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}])
