"""Embeddings, reranking and scores over HTTP: right, refused, among chats, and left alone."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.server.asking import is_idle, long_text, until
from tests.server.running import Answer, Client, Start
from tests.vectors import tiny
from tests.vectors.conftest import needs_extra
from tests.vectors.make_reference import TINY

EMBEDDINGS, RERANK, SCORE = "/v1/embeddings", "/v1/rerank", "/v1/score"
MODEL = "tiny-qwen3-embedding"
PINNED = np.load(TINY)
DOCUMENTS = ["the ships that passed", "a blue book", "hello"]

Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    tiny.build(folder / MODEL, "qwen3")
    tiny.build(folder / "tiny-bert-embedding", "bert")
    tiny.build_reranker(folder / "tiny-bert-reranker", "bert")
    return folder


@pytest.fixture
async def client(start: Start, folder: Path, long_model: Path) -> Client:
    roots = (Root(folder, "tests", "folders"), Root(long_model, "tests", "folders"))
    return await start(Settings(), *roots)


def rows_of(answer: Answer) -> np.ndarray:
    assert answer.status == 200, answer.body
    data = answer.json["data"]
    assert [item["index"] for item in data] == list(range(len(data)))
    return np.array([item["embedding"] for item in data])


async def test_vectors_of_token_ids(client: Client) -> None:
    ask = {"model": MODEL, "input": tiny.rows()}
    answer = await client.post(EMBEDDINGS, json=ask)
    assert np.abs(rows_of(answer) - PINNED["qwen3"]).max() < 2e-6
    num_tokens = sum(map(len, tiny.rows()))
    assert answer.json["usage"] == {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    assert answer.json["model"] == MODEL
    encoded = await client.post("/embeddings", json={**ask, "encoding_format": "base64"})
    rows = [np.frombuffer(base64.b64decode(i["embedding"]), "<f4") for i in encoded.json["data"]]
    assert np.abs(np.array(rows) - PINNED["qwen3"]).max() < 2e-6


async def test_results_are_in_the_order_of_the_inputs(client: Client) -> None:
    texts = [f"{'word ' * (i * 7 % 20)}{i}" for i in range(40)]
    together = rows_of(await client.post(EMBEDDINGS, json={"model": MODEL, "input": texts}))
    for i in (0, 13, 39):
        alone = rows_of(await client.post(EMBEDDINGS, json={"model": MODEL, "input": texts[i]}))
        assert np.abs(alone[0] - together[i]).max() < 2e-6


@pytest.mark.clients(91)
@needs_extra
async def test_a_model_that_was_not_trained_for_it_is_not_cut(client: Client) -> None:
    ask = {"model": "tiny-bert-embedding", "input": "a", "dimensions": 16}
    refused = await client.post(EMBEDDINGS, json=ask)
    assert (refused.status, refused.error["param"]) == (400, "dimensions")
    assert "were not trained to be cut" in refused.error["message"]


@pytest.mark.clients(91)
async def test_a_model_that_was_trained_for_it_is_cut(start: Start, tmp_path: Path) -> None:
    tiny.build(tmp_path / "cut-embedding", "qwen3", matryoshka_dimensions=[8, 16])
    client = await start(Settings(), Root(tmp_path, "tests", "folders"))
    whole = rows_of(await client.post(EMBEDDINGS, json={"input": "a"}))[0]
    cut = rows_of(await client.post(EMBEDDINGS, json={"input": "a", "dimensions": 16}))[0]
    assert np.abs(cut - whole[:16] / np.linalg.norm(whole[:16])).max() < 1e-6
    assert abs(np.linalg.norm(cut) - 1) < 1e-6
    same = rows_of(await client.post(EMBEDDINGS, json={"input": "a", "dimensions": 32}))[0]
    assert np.array_equal(same, whole)
    for wrong in (9, 33):
        refused = await client.post(EMBEDDINGS, json={"input": "a", "dimensions": wrong})
        assert (refused.status, refused.error["param"]) == (400, "dimensions")


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"input": ["a", "b " * 400]}, "input[1]", '"truncate": true'),
        ({"input": [[5], [512]]}, "input[1]", "ends at 511"),
        ({"input": "a", "prompt_name": "x"}, "prompt_name", "has no prompt"),
        ({"input": ["a", None]}, "input[1]", "not null"),
        ({}, "input", "missing"),
    ],
    ids=["too long", "beyond the vocabulary", "prompt", "null", "nothing"],
)
async def test_what_is_wrong_is_a_400_that_names_it(
    client: Client, body: dict[str, Any], param: str, words: str
) -> None:
    answer = await client.post(EMBEDDINGS, json={"model": MODEL, **body})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert words in answer.error["message"]


async def test_what_is_too_long_is_cut_where_the_client_says_so(client: Client) -> None:
    ask = {"model": MODEL, "input": "b " * 400, "truncate": True}
    answer = await client.post(EMBEDDINGS, json=ask)
    assert answer.json["usage"]["prompt_tokens"] == tiny.CONTEXT_LENGTH


# -- reranking -------------------------------------------------------------------------------


async def test_an_embedding_model_reranks_by_similarity_and_says_so(client: Client) -> None:
    ask = {"model": MODEL, "query": "ships", "documents": DOCUMENTS, "return_documents": True}
    answer = await client.post(RERANK, json=ask)
    assert answer.json["method"] == "embedding similarity"
    results = answer.json["results"]
    embed = {"model": MODEL, "input": DOCUMENTS, "input_type": "document"}
    rows = rows_of(await client.post(EMBEDDINGS, json=embed))
    embed = {"model": MODEL, "input": "ships", "input_type": "query"}  # with the model's prompt
    scores = rows @ rows_of(await client.post(EMBEDDINGS, json=embed))[0]
    assert [item["index"] for item in results] == list(np.argsort(-scores))
    for item in results:
        assert abs(item["relevance_score"] - scores[item["index"]]) < 1e-5
        assert item["document"] == {"text": DOCUMENTS[item["index"]]}


@needs_extra
async def test_a_cross_encoder_reranks_and_scores(client: Client) -> None:
    ask = {"model": "tiny-bert-reranker", "raw_scores": True}
    pairs = {"text_1": "capital of France", "text_2": list(tiny.DOCUMENTS)}
    answer = await client.post(SCORE, json={**ask, **pairs})
    raw = np.array([item["score"] for item in answer.json["data"]])
    assert np.abs(raw - PINNED["bert pairs"]).max() < 3e-6
    assert answer.json["method"] == "cross-encoder"
    body = {"model": "tiny-bert-reranker", "query": "capital of France", "top_n": 2}
    answer = await client.post(RERANK, json={**body, "documents": list(tiny.DOCUMENTS)})
    [first, second] = answer.json["results"]
    assert first["index"] == raw.argmax()
    assert first["relevance_score"] >= second["relevance_score"]
    assert abs(first["relevance_score"] - 1 / (1 + math.exp(-raw.max()))) < 1e-6


async def test_what_is_too_long_of_a_pair_is_named_as_the_client_does(client: Client) -> None:
    long = "b " * 400
    for path, body, param in (
        (RERANK, {"query": "a", "documents": ["b", long]}, "documents[1]"),
        (RERANK, {"query": long, "texts": ["b", "c"]}, "query"),
        (RERANK, {"query": "a", "texts": ["b", long]}, "texts[1]"),
        (SCORE, {"text_1": long, "text_2": ["b", "c"]}, "text_1"),
        (SCORE, {"queries": ["a", "a"], "documents": ["b", long]}, "documents[1]"),
    ):
        answer = await client.post(path, json={"model": MODEL, **body})
        assert (answer.status, answer.error["param"]) == (400, param)


# -- kinds -----------------------------------------------------------------------------------


async def test_what_a_model_can_not_do_is_said(client: Client) -> None:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    answer = await client.post("/v1/chat/completions", json=chat)
    assert (answer.status, answer.error["param"]) == (400, "model")
    assert "an embedding model" in answer.error["message"]
    assert "/v1/embeddings" in answer.error["message"]
    answer = await client.post(EMBEDDINGS, json={"model": "long", "input": "a"})
    assert (answer.status, answer.error["param"]) == (400, "model")
    assert "a language model" in answer.error["message"]
    assert "/v1/chat/completions" in answer.error["message"]
    answer = await client.post(EMBEDDINGS, json={"model": "tiny-bert-reranker", "input": "a"})
    assert answer.status == 400
    assert "a reranker" in answer.error["message"]


async def test_the_list_says_what_each_can_do(client: Client) -> None:
    models = {model["id"]: model for model in (await client.get("/v1/models")).json["data"]}
    assert models[MODEL]["kind"] == "embedding"
    assert models[MODEL]["abilities"] == ["embeddings", "rerank", "score"]
    assert models[MODEL]["pooling"] == "lasttoken"
    assert models[MODEL]["pooling_source"] == "1_Pooling/config.json"
    assert models["tiny-bert-reranker"]["abilities"] == ["rerank", "score"]
    assert models["long"]["abilities"] == ["chat", "completions"]


async def test_no_name_means_the_model_in_use_that_can_do_it(client: Client) -> None:
    await client.post(EMBEDDINGS, json={"model": MODEL, "input": "a"})
    text = await client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1})
    assert (text.status, text.json["model"]) == (200, "long")
    answer = await client.post(EMBEDDINGS, json={"input": "a"})
    assert (answer.status, answer.json["model"]) == (200, MODEL)


async def test_without_the_extra_it_is_a_501_with_the_command(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name.startswith("mlx_embeddings") else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    ask = {"model": "tiny-bert-embedding", "input": "a"}
    answer = await client.post(EMBEDDINGS, json=ask)
    assert (answer.status, answer.error["code"]) == (501, "not_installed")
    assert "pip install" in answer.error["message"]
    assert "[embeddings]'" in answer.error["message"]
    # A language model as an embedding model needs mlx-lm alone.
    assert (await client.post(EMBEDDINGS, json={"model": MODEL, "input": "a"})).status == 200


# -- company ---------------------------------------------------------------------------------


async def test_a_chat_goes_on_beside_an_indexing_run(client: Client) -> None:
    """And both are right; how far apart the words may come is for the benchmark."""
    texts = [f"document {i} " * (1 + i % 9) for i in range(120)]
    alone = rows_of(await client.post(EMBEDDINGS, json={"model": MODEL, "input": texts[:3]}))
    words = asyncio.create_task(client.post("/v1/completions", json=long_text(max_tokens=30)))
    runs = [client.post(EMBEDDINGS, json={"model": MODEL, "input": texts}) for _ in range(3)]
    answers = await asyncio.gather(*runs)
    text = await words
    assert text.json["usage"]["completion_tokens"] == 30
    for answer in answers:
        assert np.abs(rows_of(answer)[:3] - alone).max() < 2e-6
    await until(lambda: is_idle(client))


async def test_whoever_leaves_takes_the_rest_of_its_inputs_along(client: Client) -> None:
    await client.post(EMBEDDINGS, json={"model": MODEL, "input": "a"})
    ask = {"model": MODEL, "input": [[5] * 100] * 2000}
    task = asyncio.create_task(client.post(EMBEDDINGS, json=ask))
    await until(lambda: client.engine.status().num_running == 1)
    task.cancel()
    await until(lambda: is_idle(client))
    done = next(model for model in client.engine.status().loaded if model.id == MODEL)
    assert done.prefill_tokens < 2000 * 100
    answer = await client.post(EMBEDDINGS, json={"model": MODEL, "input": "a"})
    assert answer.status == 200


async def test_a_line_in_the_log_has_the_tokens(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    ask = {"model": MODEL, "input": tiny.rows()}
    for path in (EMBEDDINGS, "/api/embed"):
        await client.post(path, json={**ask, "input": ["hello"]})
    await client.post(RERANK, json={"model": MODEL, "query": "a", "documents": DOCUMENTS})
    await client.post(SCORE, json={"model": MODEL, "text_1": "a", "text_2": "b"})
    lines = [record.__dict__["fields"] for record in caplog.records]
    assert [line["protocol"] for line in lines] == ["openai", "ollama", "jina", "jina"]
    assert all((line["model"], line["status"]) == (MODEL, 200) for line in lines)
    assert all(line["prompt_tokens"] > 0 for line in lines)
