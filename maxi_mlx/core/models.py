"""What is known of a model folder without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from maxi_mlx.core.model_settings import ModelSettings

ModelKind = Literal["language", "vision", "embedding", "reranker", "speech", "unknown"]

# What a model of a kind can do, by the endpoints' names.
ABILITIES: Mapping[ModelKind, tuple[str, ...]] = {
    "language": ("chat", "completions"),
    "vision": ("chat", "completions"),
    "embedding": ("embeddings", "rerank", "score"),
    "reranker": ("rerank", "score"),
    "speech": ("transcriptions", "translations"),
}

# As sentence-transformers calls them.
Pooling = Literal["cls", "mean", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingForm:
    """How an embedding model makes one vector of a text, by its own files.

    The tokens' vectors are pooled (several ways: one after the other in one vector), then go
    through ``steps``: the folder of a dense layer, or ``normalize``. ``source`` says where that
    comes from. ``prompts`` are what is put before a text, by name; ``default_prompt`` names one of
    them. ``dimensions`` are the lengths that a vector may be cut to, beside its own, and
    ``least_dimension`` the shortest of a model that takes any.
    """

    pooling: tuple[Pooling, ...]
    source: str
    steps: tuple[str, ...] = ("normalize",)
    pools_prompt: bool = True
    max_tokens: int | None = None
    lowers_case: bool = False
    prompts: tuple[tuple[str, str], ...] = ()
    default_prompt: str | None = None
    dimensions: tuple[int, ...] = ()
    least_dimension: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A LoRA folder. ``changed_ns`` is its newest file's time."""

    name: str
    path: Path
    weight_bytes: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model folder, classified from its files alone.

    ``id`` is the short name that ``/v1/models`` lists; ``org_name`` is ``org/name`` where an
    organisation is known. ``problem`` says why the folder can't be served, and is None when it
    can. ``created`` is the newest file's time in seconds since 1970. ``weight_bytes`` is what the
    tensors take in memory, by the safetensors headers. ``settings`` are the owner's, whose cap
    ``context_length`` has already. With a ``base``, the model is that one with ``adapter`` over it:
    it shares the base's weights, and its own bytes are the adapter's.
    """

    id: str
    path: Path
    kind: ModelKind
    org_name: str | None
    source: str  # where it was found: "maxi-mlx", "hub cache", "LM Studio", or the folder given
    model_type: str | None
    architecture: str | None
    weight_bytes: int
    quantization: str | None  # "4-bit", "8-bit", "mxfp4"; None for plain floats
    context_length: int | None
    created: int
    problem: str | None = None
    embedding: EmbeddingForm | None = None  # of an embedding model that can be served
    sees: bool = False  # images, which the model's kind alone does not tell
    settings: ModelSettings = field(default_factory=ModelSettings)
    adapter: Adapter | None = None  # applied whenever the model is loaded
    base: ModelEntry | None = None

    @property
    def all_weight_bytes(self) -> int:
        """With those of the base."""
        return self.weight_bytes + (self.base.weight_bytes if self.base is not None else 0)

    @property
    def folders(self) -> tuple[Path, ...]:
        """What tells it from every other model, whatever is in its files."""
        return (self.path,) if self.adapter is None else (self.path, self.adapter.path)
