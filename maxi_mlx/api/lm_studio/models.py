"""The lists of models in the two shapes that LM Studio has had."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from maxi_mlx.api.lm_studio.answer_schema import (
    InstanceConfig,
    LoadState,
    NewerModel,
    OlderModel,
)
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.models import ModelEntry

_TYPES_V0: Mapping[str, Literal["llm", "embeddings"]] = {
    "language": "llm",
    "vision": "llm",
    "embedding": "embeddings",
}
_TYPES_V1: Mapping[str, Literal["llm", "embedding"]] = {
    "language": "llm",
    "vision": "llm",
    "embedding": "embedding",
}
_BITS = re.compile(r"(\d+)-?bit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model that can be served. ``takes_tools``: its own chat template knows tools."""

    entry: ModelEntry
    state: LoadState
    takes_tools: bool

    @property
    def publisher(self) -> str:
        return self.entry.org_name.partition("/")[0] if self.entry.org_name else "local"


def models_v0(models: Iterable[ListedModel]) -> bytes:
    found = [_v0(model) for model in models if model.entry.kind in _TYPES_V0]
    return to_json({"object": "list", "data": found})


def model_v0(model: ListedModel) -> bytes:
    return to_json(_v0(model))


def models_v1(models: Iterable[ListedModel]) -> bytes:
    return to_json({"models": [_v1(model) for model in models if model.entry.kind in _TYPES_V1]})


def _v0(model: ListedModel) -> OlderModel:
    entry = model.entry
    found: OlderModel = {
        "id": entry.id,
        "object": "model",
        # Clients offer images to what is called "vlm".
        "type": "vlm" if entry.sees else _TYPES_V0.get(entry.kind, "llm"),
        "publisher": model.publisher,
        "arch": entry.model_type or "unknown",
        "compatibility_type": "mlx",
        "quantization": _quantization(entry),
        "state": model.state,
        "capabilities": [
            *(["tool_use"] if model.takes_tools else []),
            *(["vision"] if entry.sees else []),
        ],
    }
    # Absent where unknown: some clients take a missing number, but not null.
    if entry.context_length is not None:
        found["max_context_length"] = entry.context_length
        if model.state == "loaded":
            found["loaded_context_length"] = entry.context_length
    return found


def _v1(model: ListedModel) -> NewerModel:
    entry = model.entry
    kind = _TYPES_V1[entry.kind]
    name = _quantization(entry)
    bits = _BITS.fullmatch(name)
    found: NewerModel = {
        "type": kind,
        "publisher": model.publisher,
        "key": entry.id,
        "display_name": entry.id.rpartition("/")[2],
        "architecture": entry.model_type,
        "quantization": {"name": name, "bits_per_weight": int(bits[1]) if bits else None},
        "size_bytes": entry.weight_bytes,
        "params_string": None,
        "loaded_instances": [],
        "max_context_length": entry.context_length or 0,
        "format": "mlx",
        "description": None,
    }
    if kind == "llm":
        found["capabilities"] = {
            "vision": entry.sees,
            "trained_for_tool_use": model.takes_tools,
        }
    if model.state == "loaded":
        config: InstanceConfig = {"context_length": entry.context_length or 0}
        found["loaded_instances"] = [{"id": entry.id, "config": config}]
    return found


def _quantization(entry: ModelEntry) -> str:
    """``4bit``, as LM Studio writes it; ``none`` for plain floats."""
    return entry.quantization.replace("-bit", "bit") if entry.quantization else "none"
