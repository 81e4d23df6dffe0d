"""What an embedding model's makers say of it where its folder says nothing.

Conversions often leave sentence-transformers' files out. A model made for its first token's vector
gives poor ones by the mean, and the other way round, so that the family counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from maxi_mlx.core.models import Pooling

_QWEN3_QUERY = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``pooling`` and ``prompts`` as the model cards have them. ``dimensions`` and
    ``least_dimension`` as in `EmbeddingForm`."""

    name: str
    pooling: Pooling
    prompts: Mapping[str, str] = field(default_factory=dict)
    dimensions: tuple[int, ...] = ()
    least_dimension: int | None = None


QWEN3 = Family(
    name="Qwen3-Embedding",
    pooling="lasttoken",
    prompts={"query": _QWEN3_QUERY, "document": ""},
    least_dimension=32,
)
EMBEDDING_GEMMA = Family(
    name="EmbeddingGemma",
    pooling="mean",
    prompts={
        "query": "task: search result | query: ",
        "document": "title: none | text: ",
    },
    dimensions=(128, 256, 512),
)

# By a folder's name; the first that matches.
_BY_NAME: tuple[tuple[str, Family], ...] = (
    (r"qwen3[-_]embedding", QWEN3),
    (r"embedding[-_]?gemma", EMBEDDING_GEMMA),
    (r"\bbge[-_]", Family(name="BGE", pooling="cls")),
    (r"arctic[-_]embed", Family(name="arctic-embed", pooling="cls")),
    (r"mxbai[-_]embed", Family(name="mxbai-embed", pooling="cls")),
    (r"gte[-_]modernbert", Family(name="gte-modernbert", pooling="cls")),
    (
        r"\be5[-_]",
        Family(name="E5", pooling="mean", prompts={"query": "query: ", "document": "passage: "}),
    ),
)


def family_of(name: str, model_type: str | None, *, is_encoder: bool) -> Family:
    """By the folder's name, else what sentence-transformers makes of a model without its files
    (the mean), and of a language model the last token, which alone has read the whole text."""
    for pattern, family in _BY_NAME:
        if re.search(pattern, name, re.IGNORECASE):
            return family
    if is_encoder:
        return Family(name=model_type or "encoders", pooling="mean")
    return Family(name="language models", pooling="lasttoken")
