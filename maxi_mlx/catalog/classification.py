"""Classifies one folder from its files: what model it holds and what keeps it from being served.

Opens config.json, tokenizer_config.json, the weights' headers and their index; of an embedding
model also what says how it makes vectors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxi_mlx.catalog.architectures import is_supported
from maxi_mlx.catalog.embedding_form import form_files, most_tokens, read_form
from maxi_mlx.catalog.folders import Listing
from maxi_mlx.catalog.kinds import (
    LLAMAS_WITH_EYES,
    architectures_of,
    kind_of,
    model_type_of,
    sees,
)
from maxi_mlx.catalog.model_config import context_length, quantization
from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.problems import (
    WEIGHTS_PREFIX,
    Findings,
    problem_of,
    problem_without_config,
)
from maxi_mlx.catalog.weights import read_weights
from maxi_mlx.core.models import EmbeddingForm, ModelKind

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"

# In the config of mlx-whisper's conversions, some of which name no model type.
_WHISPER_KEY = "n_mels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The part of a ModelEntry that the folder's own files decide."""

    kind: ModelKind
    model_type: str | None = None
    architecture: str | None = None
    weight_bytes: int = 0
    quantization: str | None = None
    context_length: int | None = None
    created: int = 0
    problem: str | None = None
    embedding: EmbeddingForm | None = None
    sees: bool = False


def files_read(listing: Listing) -> list[str]:
    """The files whose content, not only their presence, a classification depends on."""
    own = [
        name
        for name in sorted(listing.files)
        if name in (CONFIG, TOKENIZER_CONFIG)
        or name.endswith((".safetensors", ".safetensors.index.json"))
    ]
    return own + form_files(listing)


def classify(
    folder: Path, listing: Listing, *, name: str, num_partial: int
) -> Classification | None:
    """None where the folder holds no model at all, only some other program's config.json."""
    created = _newest(folder, files_read(listing))
    if CONFIG not in listing.files:
        problem = problem_without_config(listing, num_partial=num_partial)
        if problem is None:
            return None
        return Classification(kind="unknown", created=created, problem=problem)
    try:
        config = read_object(folder / CONFIG)
    except BrokenFile as error:
        return Classification(kind="unknown", created=created, problem=f"{CONFIG} {error}")
    if not _speaks_of_a_model(config) and not _weight_names(listing):
        return None
    found = _look(folder, listing, config, name=name, num_partial=num_partial)
    tokenizer_config = found.tokenizer_config
    problem, embedding = problem_of(found), None
    if found.kind == "embedding" and problem is None:
        try:
            embedding = read_form(folder, listing, config, name=name)
        except BrokenFile as error:
            problem = str(error)
    longest = context_length(
        config, {} if isinstance(tokenizer_config, BrokenFile) else tokenizer_config
    )
    if found.kind == "speech":
        longest = None  # it hears half a minute at a time, of sound without an end
    if found.kind in ("embedding", "reranker"):
        longest = most_tokens(config, longest)
    if embedding is not None and embedding.max_tokens is not None:
        longest = min(embedding.max_tokens, longest or embedding.max_tokens)
    return Classification(
        kind=found.kind,
        model_type=found.model_type and printable(found.model_type),
        architecture=printable(found.architectures[0]) if found.architectures else None,
        weight_bytes=found.weights.num_bytes or _npz_bytes(folder, listing),
        quantization=quantization(config),
        context_length=longest,
        created=created,
        problem=problem,
        embedding=embedding,
        sees=sees(found.kind, config, listing.files),
    )


def _look(
    folder: Path, listing: Listing, config: Mapping[str, Any], *, name: str, num_partial: int
) -> Findings:
    weight_names = _weight_names(listing)
    weights = read_weights(folder, weight_names)
    architectures = architectures_of(config)
    model_type = model_type_of(config)
    supported = model_type is not None and (
        model_type in LLAMAS_WITH_EYES or is_supported(model_type, architectures)
    )
    return Findings(
        folder=folder,
        listing=listing,
        num_partial=num_partial,
        config=config,
        tokenizer_config=_tokenizer_config(folder, listing),
        weights=weights,
        weight_names=weight_names,
        kind=kind_of(
            config,
            name=name,
            names={*listing.files, *listing.folders},
            tensors=weights.tensor_bytes,
            is_supported=supported,
        ),
        model_type=model_type,
        architectures=architectures,
        is_supported=supported,
    )


def _speaks_of_a_model(config: Mapping[str, Any]) -> bool:
    return (
        model_type_of(config) is not None
        or bool(architectures_of(config))
        or _WHISPER_KEY in config
    )


def _weight_names(listing: Listing) -> tuple[str, ...]:
    """The files that a loader takes: model*.safetensors, or whatever there is without them."""
    every = sorted(name for name in listing.files if name.endswith(".safetensors"))
    main = [name for name in every if name.startswith(WEIGHTS_PREFIX)]
    return tuple(main or every)


def _tokenizer_config(folder: Path, listing: Listing) -> Mapping[str, Any] | BrokenFile:
    if TOKENIZER_CONFIG not in listing.files:
        return {}
    try:
        return read_object(folder / TOKENIZER_CONFIG)
    except BrokenFile as error:
        return error


def _npz_bytes(folder: Path, listing: Listing) -> int:
    """Of weights in numpy's form, which mlx-whisper reads too: they aren't compressed."""
    names = [name for name in listing.files if name.endswith(".npz")]
    try:
        return sum(os.stat(folder / name).st_size for name in names)
    except OSError:  # deleted since it was listed
        return 0


def _newest(folder: Path, names: Iterable[str]) -> int:
    times = [_modified(folder / name) for name in names] or [_modified(folder)]
    return int(max(times))


def _modified(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:  # deleted since it was listed
        return 0.0
