"""What is known of a model folder without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ModelKind = Literal["language", "vision", "embedding", "reranker", "speech", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model folder, classified from its files alone.

    ``id`` is the short name that ``/v1/models`` lists; ``org_name`` is ``org/name`` where an
    organisation is known. ``problem`` says why the folder can't be served, and is None when it
    can. ``created`` is the newest file's time in seconds since 1970. ``weight_bytes`` is what the
    tensors take in memory, by the safetensors headers.
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
