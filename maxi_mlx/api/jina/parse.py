"""Bodies for ``/rerank`` and ``/score`` to a `ScoreRequest`: names, JSON types, and checks."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.embeddings import check_count, checked_model, checked_truncate
from maxi_mlx.core.embedding import ScoreRequest
from maxi_mlx.core.errors import InvalidRequest


class DocumentItem(msgspec.Struct, frozen=True, kw_only=True):
    text: str | None = None


Documents = list[str | DocumentItem]


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    truncate: bool | str | None = None
    raw_scores: bool | None = None


class RerankBody(_Body, frozen=True, kw_only=True):
    query: str | None = None
    documents: Documents | None = None
    texts: Documents | None = None
    top_n: int | None = None
    top_k: int | None = None
    return_documents: bool | None = None
    return_text: bool | None = None


class ScoreBody(_Body, frozen=True, kw_only=True):
    text_1: str | list[str] | None = None
    text_2: str | list[str] | None = None
    queries: str | list[str] | None = None
    documents: str | list[str] | None = None


_RERANK = msgspec.json.Decoder(RerankBody)
_SCORE = msgspec.json.Decoder(ScoreBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankCall:
    """What to score, and which results go back: the best ``num_results``."""

    request: ScoreRequest
    num_results: int
    returns_documents: bool


def parse_rerank(body: bytes, *, request_id: str) -> RerankCall:
    """The call in a body for ``/rerank``; raises `InvalidRequest`."""
    fields = decode(body, _RERANK)
    if not fields.query:
        missing = "is missing" if fields.query is None else "is empty"
        raise InvalidRequest(f"'query' {missing}; send a text.", param="query")
    name = "documents" if fields.documents is not None or fields.texts is None else "texts"
    documents = _documents(getattr(fields, name), name)
    limit_name = "top_n" if fields.top_n is not None else "top_k"
    limit: int | None = getattr(fields, limit_name)
    if limit is not None and limit < 1:
        raise InvalidRequest(f"'{limit_name}' is {limit}; it counts from 1.", param=limit_name)
    return RerankCall(
        request=ScoreRequest(
            id=request_id,
            model=checked_model(fields.model),
            queries=(fields.query,),
            documents=documents,
            truncate=checked_truncate(fields.truncate),
            raw=fields.raw_scores or False,
            fields=("query", name),
        ),
        num_results=min(limit or len(documents), len(documents)),
        returns_documents=bool(fields.return_documents or fields.return_text),
    )


def parse_score(body: bytes, *, request_id: str) -> ScoreRequest:
    """The request in a body for ``/score``; raises `InvalidRequest`."""
    fields = decode(body, _SCORE)
    first = "queries" if fields.queries is not None else "text_1"
    second = "documents" if fields.documents is not None else "text_2"
    queries, documents = (
        _texts(getattr(fields, first), first),
        _texts(getattr(fields, second), second),
    )
    if len(queries) not in (1, len(documents)):
        raise InvalidRequest(
            f"'{first}' has {len(queries)} texts and '{second}' {len(documents)}: send one text "
            f"as '{first}', or as many as in '{second}'.",
            param=first,
        )
    return ScoreRequest(
        id=request_id,
        model=checked_model(fields.model),
        queries=queries,
        documents=documents,
        truncate=checked_truncate(fields.truncate),
        raw=fields.raw_scores or False,
        fields=(first, second),
    )


def _documents(wire: Documents | None, name: str) -> tuple[str, ...]:
    if not wire:
        missing = "is missing" if wire is None else "is an empty list"
        raise InvalidRequest(f"'{name}' {missing}; send at least one text.", param=name)
    check_count(len(wire), name)
    texts = []
    for index, item in enumerate(wire):
        text = item if isinstance(item, str) else item.text
        if not text:
            path = f"{name}[{index}]" if isinstance(item, str) else f"{name}[{index}].text"
            raise InvalidRequest(f"'{path}' is empty or missing; send a text.", param=path)
        texts.append(text)
    return tuple(texts)


def _texts(wire: str | list[str] | None, name: str) -> tuple[str, ...]:
    items = [wire] if isinstance(wire, str) else wire
    if not items:
        missing = "is missing" if items is None else "is an empty list"
        raise InvalidRequest(f"'{name}' {missing}; send a text.", param=name)
    check_count(len(items), name)
    for index, item in enumerate(items):
        if not item:
            path = name if isinstance(wire, str) else f"{name}[{index}]"
            raise InvalidRequest(f"'{path}' is empty.", param=path)
    return tuple(items)
