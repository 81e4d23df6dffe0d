"""Reranking in the shape of Jina's and Cohere's APIs, and scores in vLLM's."""

from __future__ import annotations

from maxi_mlx.api.jina.parse import RerankCall, parse_rerank, parse_score
from maxi_mlx.api.jina.writers import rerank_body, score_body

__all__ = ["RerankCall", "parse_rerank", "parse_score", "rerank_body", "score_body"]
