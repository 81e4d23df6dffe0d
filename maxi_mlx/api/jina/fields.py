"""Every request field that ``/rerank`` and ``/score`` know, and what becomes of it here.

The table of `maxi_mlx.api.openai.fields`, for these two; a field in no table is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxi_mlx.api.openai.fields import Field

_SHARED_FIELDS: Mapping[str, Field] = {
    "model": Field(
        "honoured",
        "a reranker's or an embedding model's id; null, absent or empty: the engine's choice",
    ),
    "truncate": Field(
        "honoured",
        "true (or 'END'): what is too long is cut at its end; false, null and absent: it is a 400 "
        "that names the document",
    ),
    "raw_scores": Field("honoured", "true: a reranker's own numbers, not brought between 0 and 1"),
    "user": Field("ignored", "nobody is billed or watched"),
}

RERANK_FIELDS: Mapping[str, Field] = {
    **_SHARED_FIELDS,
    "query": Field("honoured", "a text"),
    "documents": Field("honoured", "1 to 2048 texts, or objects with a text each"),
    "texts": Field("honoured", "another name of documents, which wins"),
    "top_n": Field("honoured", "so many results, the best; null, absent: all"),
    "top_k": Field("honoured", "another name of top_n, which wins"),
    "return_documents": Field("honoured", "true: each result has its document"),
    "return_text": Field("honoured", "another name of return_documents"),
}

SCORE_FIELDS: Mapping[str, Field] = {
    **_SHARED_FIELDS,
    "text_1": Field("honoured", "a text, or as many as there are in text_2"),
    "text_2": Field("honoured", "a text, or 1 to 2048 of them"),
    "queries": Field("honoured", "another name of text_1, which wins"),
    "documents": Field("honoured", "another name of text_2, which wins"),
}
