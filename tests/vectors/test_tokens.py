"""Texts to token ids: prompts, limits, and what is wrong with an input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.core.embedding import EmbeddingRequest, ScoreRequest
from maxi_mlx.core.errors import ContextTooLong, InvalidRequest
from maxi_mlx.core.models import EmbeddingForm
from maxi_mlx.engine.vectors.tokens import EmbeddingTexts, PairTexts, Texts, read_tokenizer
from tests.engine.conftest import entry_for

LIMIT = 20
FORM = EmbeddingForm(
    pooling=("mean",),
    source="test",
    prompts=(("query", "find: "), ("passage", "text: "), ("cluster", "Group ")),
)
Make = Callable[..., EmbeddingTexts]


@pytest.fixture
def texts(vector_models: Path) -> Texts:
    folder = vector_models / "tiny-bert-embedding"
    tokenizer, has_segments = read_tokenizer(folder)
    assert has_segments
    return Texts(tokenizer, entry_for(folder), limit=LIMIT, num_ids=512)


@pytest.fixture
def make(texts: Texts, vector_models: Path) -> Make:
    entry = entry_for(vector_models / "tiny-bert-embedding")

    def make(**changes: Any) -> EmbeddingTexts:
        return EmbeddingTexts(texts, entry, replace(FORM, **changes))

    return make


def asking(*inputs: Any, **more: Any) -> EmbeddingRequest:
    return EmbeddingRequest(id="r", model="m", inputs=inputs, **more)


def ids(texts: EmbeddingTexts, request: EmbeddingRequest) -> list[list[int]]:
    return [list(row.ids) for row in texts.rows(request)]


def test_a_text_stands_between_its_marks(make: Make) -> None:
    [row] = make().rows(asking("hello"))
    assert (row.ids[0], row.ids[-1], row.start, row.segments) == (1, 2, 0, None)


@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ({}, ""),
        ({"input_type": "query"}, "find: "),
        ({"input_type": "document"}, "text: "),
        ({"prompt_name": "cluster"}, "Group "),
    ],
    ids=["none", "query", "document", "by name"],
)
def test_prompts(make: Make, options: dict[str, Any], prompt: str) -> None:
    assert ids(make(), asking("words", **options)) == ids(make(), asking(prompt + "words"))


def test_the_models_default_prompt_is_for_those_who_choose_none(make: Make) -> None:
    texts = make(default_prompt="cluster")
    assert ids(texts, asking("a")) == ids(make(), asking("Group a"))
    assert ids(texts, asking("a", input_type="query")) == ids(make(), asking("find: a"))


def test_a_prompt_that_is_not_known_is_refused(make: Make) -> None:
    with pytest.raises(InvalidRequest, match=r"has no prompt 'x'; it has 'query', 'passage'"):
        make().rows(asking("a", prompt_name="x"))


def test_a_prompt_that_does_not_count_is_behind_where_pooling_begins(make: Make) -> None:
    [row] = make(pools_prompt=False).rows(asking("words", prompt_name="query"))
    [bare] = make().rows(asking("find: "))
    assert row.start == len(bare.ids) - 1  # without the closing mark
    assert make(pools_prompt=False).rows(asking("words"))[0].start == 0


def test_lower_case_only_where_the_files_ask_for_it(make: Make) -> None:
    assert ids(make(lowers_case=True), asking("HeLLo")) == ids(make(), asking("hello"))
    assert ids(make(), asking("HeLLo")) != ids(make(), asking("hello"))


LONG = "ships that passed in the night " * 4


@pytest.mark.parametrize(
    ("inputs", "param"),
    [(("a", LONG), "input[1]"), ((LONG,), "input"), (((5,) * 21,), "input")],
    ids=["in a list", "alone", "token ids"],
)
def test_what_is_too_long_is_named(make: Make, inputs: tuple[Any, ...], param: str) -> None:
    with pytest.raises(ContextTooLong, match=rf"reads {LIMIT} at most") as caught:
        make().rows(asking(*inputs))
    assert caught.value.param == param


def test_what_is_too_long_is_cut_before_its_closing_mark(make: Make) -> None:
    short, cut, given = make().rows(asking("a", LONG, (5,) * 30, truncate=True))
    [whole] = make().rows(asking(LONG[:20]))
    assert len(short.ids) < LIMIT
    assert (len(cut.ids), cut.ids[-1]) == (LIMIT, 2)
    assert list(cut.ids[:4]) == list(whole.ids[:4])
    assert list(given.ids) == [5] * LIMIT
    assert make().rows(asking("a" * 5)), "cutting one text leaves no trace"


def test_a_token_id_beyond_the_vocabulary_is_refused(make: Make) -> None:
    with pytest.raises(InvalidRequest, match="ends at 511") as caught:
        make().rows(asking((5,), (512,)))
    assert caught.value.param == "input[1]"


def test_pairs_have_segments(texts: Texts) -> None:
    request = ScoreRequest(id="r", model="m", queries=("a",), documents=("b", "see"))
    first, second = PairTexts(texts, takes_segments=True).rows(request)
    assert first.segments is not None
    assert sorted(set(first.segments)) == [0, 1]
    assert first.ids[0] == second.ids[0] == 1
    assert PairTexts(texts, takes_segments=False).rows(request)[0].segments is None


@pytest.mark.parametrize(
    ("queries", "documents", "param"),
    [
        (("a",), ("b", LONG), "text_2[1]"),
        (("a",), (LONG,), "text_2"),
        ((LONG,), ("a", "b"), "text_1"),
        (("a", LONG), ("a", "b"), "text_1[1]"),
    ],
    ids=["a document", "the only one", "the query", "a query"],
)
def test_what_is_too_long_of_a_pair_has_its_own_name(
    texts: Texts, queries: tuple[str, ...], documents: tuple[str, ...], param: str
) -> None:
    request = ScoreRequest(
        id="r", model="m", queries=queries, documents=documents, fields=("text_1", "text_2")
    )
    with pytest.raises(ContextTooLong, match=f"reads {LIMIT} at most") as caught:
        PairTexts(texts, takes_segments=True).rows(request)
    assert caught.value.param == param


def test_a_document_that_is_too_long_is_named(texts: Texts) -> None:
    request = ScoreRequest(id="r", model="m", queries=("a",), documents=("b", LONG))
    with pytest.raises(ContextTooLong) as caught:
        PairTexts(texts, takes_segments=True).rows(request)
    assert caught.value.param == "documents[1]"
    rows = PairTexts(texts, takes_segments=True).rows(replace(request, truncate=True))
    assert len(rows[1].ids) == LIMIT
