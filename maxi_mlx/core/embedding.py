"""What a client asks of an embedding model or a reranker, and what it gets back.

Values alone, whatever protocol the client spoke; the engine checks what needs a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What a text is for. Some models put other words before a question than before a document.
InputType = Literal["query", "document"]

# How scores came about: by a model that reads both texts together, or by the angle between the
# vectors that it makes of each.
ScoreMethod = Literal["cross-encoder", "embedding similarity"]

MAX_INPUTS = 2048  # of one request, as many as OpenAI takes


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """Texts, or token ids as they are, to be made one vector each.

    ``prompt_name`` names one of the model's own prompts, ``input_type`` the one for what the texts
    are; neither: the model's default. ``dimensions`` cuts the vectors; None: whole. ``truncate``:
    what is too long is cut; otherwise it is refused.
    """

    id: str
    model: str
    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    prompt_name: str | None = None
    input_type: InputType | None = None
    truncate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingResult:
    """``rows`` has a vector for each input, in their order: (inputs, dimensions). ``load_s`` were
    waited for the model."""

    model: str
    rows: NDArray[np.float32]
    prompt_tokens: int
    load_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """How well documents answer queries, pair by pair: one query for all documents, or one each.

    ``raw``: scores as the model has them, not brought between 0 and 1. ``fields``: what the client
    calls queries and documents.
    """

    id: str
    model: str
    queries: tuple[str, ...]
    documents: tuple[str, ...]
    truncate: bool = False
    raw: bool = False
    fields: tuple[str, str] = ("query", "documents")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreResult:
    """A score for each document, in their order."""

    model: str
    scores: tuple[float, ...]
    method: ScoreMethod
    prompt_tokens: int
