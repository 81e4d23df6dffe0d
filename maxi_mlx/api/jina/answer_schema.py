"""Scores as they go over the wire: the types of what the writers make.

The document at ``/openapi.json`` is made from them.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxi_mlx.api.openai.answer_schema import EmbeddingUsage


class BestItem(TypedDict):
    index: int
    relevance_score: float


class DocumentText(TypedDict):
    text: str


class RankedItem(BestItem):
    document: NotRequired[DocumentText]


class Ranking(TypedDict):
    """``data`` is ``results`` without the documents."""

    id: str
    object: Literal["list"]
    model: str
    results: list[RankedItem]
    data: list[BestItem]
    method: str
    usage: EmbeddingUsage


class ScoreItem(TypedDict):
    index: int
    object: Literal["score"]
    score: float


class Scores(TypedDict):
    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ScoreItem]
    method: str
    usage: EmbeddingUsage
