"""Scores to bodies: Jina's and Cohere's results, best first, and vLLM's list of scores."""

from __future__ import annotations

from maxi_mlx.api.jina.answer_schema import BestItem, RankedItem, Ranking, Scores
from maxi_mlx.api.jina.parse import RerankCall
from maxi_mlx.api.openai.answer_schema import EmbeddingUsage
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.embedding import ScoreResult


def rerank_body(result: ScoreResult, call: RerankCall, *, id: str) -> bytes:
    """Results by score; of equal ones the first document's first. ``data`` is the same without
    the documents, under the name where Voyage's clients look (Continue is one)."""
    order = sorted(range(len(result.scores)), key=lambda index: -result.scores[index])
    best: list[BestItem] = [
        {"index": index, "relevance_score": result.scores[index]}
        for index in order[: call.num_results]
    ]
    results: list[RankedItem] = [
        {"index": item["index"], "relevance_score": item["relevance_score"]} for item in best
    ]
    if call.returns_documents:
        for item in results:
            item["document"] = {"text": call.request.documents[item["index"]]}
    answer: Ranking = {
        "id": id,
        "object": "list",
        "model": result.model,
        "results": results,
        "data": best,
        "method": result.method,
        "usage": _usage(result),
    }
    return to_json(answer)


def score_body(result: ScoreResult, *, id: str, created: int) -> bytes:
    answer: Scores = {
        "id": id,
        "object": "list",
        "created": created,
        "model": result.model,
        "data": [
            {"index": index, "object": "score", "score": score}
            for index, score in enumerate(result.scores)
        ],
        "method": result.method,
        "usage": _usage(result),
    }
    return to_json(answer)


def _usage(result: ScoreResult) -> EmbeddingUsage:
    return {"prompt_tokens": result.prompt_tokens, "total_tokens": result.prompt_tokens}
