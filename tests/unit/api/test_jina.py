"""Bodies for /rerank and /score, and what goes back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from maxi_mlx.api.jina import parse_rerank, parse_score, rerank_body, score_body
from maxi_mlx.api.jina.fields import RERANK_FIELDS, SCORE_FIELDS
from maxi_mlx.api.jina.parse import RerankBody, ScoreBody
from maxi_mlx.core.embedding import ScoreResult
from maxi_mlx.core.errors import InvalidRequest


def rerank(**body: Any) -> Any:
    return parse_rerank(json.dumps(body).encode(), request_id="r")


def score(**body: Any) -> Any:
    return parse_score(json.dumps(body).encode(), request_id="r")


RESULT = ScoreResult(model="m", scores=(0.25, 0.75, 0.75), method="cross-encoder", prompt_tokens=9)


def test_results_are_best_first_and_equal_ones_in_order() -> None:
    call = rerank(query="q", documents=["a", {"text": "b"}, "c"], return_documents=True)
    written = json.loads(rerank_body(RESULT, call, id="rerank-1"))
    assert written["results"] == [
        {"index": 1, "relevance_score": 0.75, "document": {"text": "b"}},
        {"index": 2, "relevance_score": 0.75, "document": {"text": "c"}},
        {"index": 0, "relevance_score": 0.25, "document": {"text": "a"}},
    ]
    assert written["data"][0] == {"index": 1, "relevance_score": 0.75}
    assert written["method"] == "cross-encoder"
    assert written["usage"] == {"prompt_tokens": 9, "total_tokens": 9}


@pytest.mark.parametrize("name", ["top_n", "top_k"])
def test_so_many_results(name: str) -> None:
    call = rerank(query="q", documents=["a", "b", "c"], **{name: 1})
    written = json.loads(rerank_body(RESULT, call, id="x"))
    assert written["results"] == [{"index": 1, "relevance_score": 0.75}]
    assert rerank(query="q", documents=["a"], top_n=5).num_results == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"documents": ["a"]}, "query"),
        ({"query": "", "documents": ["a"]}, "query"),
        ({"query": "q"}, "documents"),
        ({"query": "q", "documents": []}, "documents"),
        ({"query": "q", "texts": []}, "texts"),
        ({"query": "q", "documents": ["a", ""]}, "documents[1]"),
        ({"query": "q", "documents": [{"title": "a"}]}, "documents[0].text"),
        ({"query": "q", "documents": ["a"] * 2049}, "documents"),
        ({"query": "q", "documents": ["a"], "top_n": 0}, "top_n"),
        ({"query": "q", "documents": ["a"], "truncate": "x"}, "truncate"),
    ],
)
def test_what_is_wrong_with_a_rerank_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        rerank(**body)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("body", "queries", "documents"),
    [
        ({"text_1": "q", "text_2": "d"}, ("q",), ("d",)),
        ({"text_1": "q", "text_2": ["d", "e"]}, ("q",), ("d", "e")),
        ({"text_1": ["q", "r"], "text_2": ["d", "e"]}, ("q", "r"), ("d", "e")),
        ({"queries": "q", "documents": ["d"]}, ("q",), ("d",)),
    ],
)
def test_pairs_to_score(body: dict[str, Any], queries: object, documents: object) -> None:
    asked = score(**body)
    assert (asked.queries, asked.documents) == (queries, documents)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text_2": "d"}, "text_1"),
        ({"text_1": "q"}, "text_2"),
        ({"text_1": "q", "text_2": [""]}, "text_2[0]"),
        ({"text_1": ["q", "r"], "text_2": ["d"]}, "text_1"),
    ],
)
def test_what_is_wrong_with_a_score_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        score(**body)
    assert caught.value.param == param


def test_scores_keep_their_order() -> None:
    written = json.loads(score_body(RESULT, id="score-1", created=5))
    assert [item["score"] for item in written["data"]] == [0.25, 0.75, 0.75]
    assert [item["index"] for item in written["data"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("table", "body"),
    [(RERANK_FIELDS, RerankBody), (SCORE_FIELDS, ScoreBody)],
    ids=["rerank", "score"],
)
def test_the_table_is_what_is_read(table: Any, body: Any) -> None:
    read = {field.name for field in msgspec.structs.fields(body)}
    assert read == {name for name, field in table.items() if field.treatment == "honoured"}
