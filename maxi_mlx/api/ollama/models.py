"""The bodies of ``/api/tags``, ``/api/show`` and ``/api/ps``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from maxi_mlx.api.ollama.answer_schema import (
    LoadedModel,
    ModelDetails,
    ModelInformation,
    TaggedModel,
)
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.models import ModelEntry

# What Ollama's clients can ask for. They offer every model of its lists for chats or for vectors.
_KINDS = ("language", "vision", "embedding")

# A size in a model's name, such as 0.6B, 135M, 8x7B or 30B-A3B.
_SIZE = re.compile(r"(?<![a-zA-Z0-9.])((?:\d+x)?\d+(?:\.\d+)?[bm])(?![a-z0-9])", re.IGNORECASE)

# Of a model that is unloaded only when its memory is needed, which no clock knows.
_NEVER = "9999-12-31T23:59:59Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownModel:
    """A model, and what its files say it can do. ``template`` is its chat template, if it has one.

    ``fills_in``: it writes what is between two texts.
    """

    entry: ModelEntry
    template: str | None = None
    takes_tools: bool = False
    thinks: bool = False
    fills_in: bool = False

    @property
    def capabilities(self) -> list[str]:
        if self.entry.kind == "embedding":
            return ["embedding"]
        can = {
            "tools": self.takes_tools,
            "thinking": self.thinks,
            "insert": self.fills_in,
            "vision": self.entry.sees,
        }
        return ["completion", *(name for name, does in can.items() if does)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningModel:
    """A model in memory, with what its running answers hold. ``expires_at`` is in seconds since
    1970; None: never by itself."""

    entry: ModelEntry
    size_bytes: int
    expires_at: float | None


def is_listed(entry: ModelEntry) -> bool:
    return entry.problem is None and entry.kind in _KINDS


def tags_body(models: Iterable[ModelEntry]) -> bytes:
    listed: list[TaggedModel] = [
        {
            "name": entry.id,
            "model": entry.id,
            "modified_at": _time(entry),
            "size": entry.weight_bytes,
            "digest": digest(entry),
            "details": _details(entry),
        }
        for entry in models
        if is_listed(entry)
    ]
    return to_json({"models": listed})


def ps_body(models: Iterable[RunningModel]) -> bytes:
    running: list[LoadedModel] = [
        {
            "name": model.entry.id,
            "model": model.entry.id,
            "size": model.size_bytes,
            "digest": digest(model.entry),
            "details": _details(model.entry),
            "expires_at": _expiry(model.expires_at),
            # MLX has one memory for all that it computes with.
            "size_vram": model.size_bytes,
            "context_length": model.entry.context_length or 0,
        }
        for model in models
        if is_listed(model.entry)
    ]
    return to_json({"models": running})


def show_body(model: ShownModel) -> bytes:
    entry = model.entry
    architecture = entry.model_type or "unknown"
    info: dict[str, Any] = {
        "general.architecture": architecture,
        "general.basename": entry.id.rpartition("/")[2],
    }
    parameters = ""
    if entry.context_length is not None:
        info[f"{architecture}.context_length"] = entry.context_length
        parameters = f"num_ctx {entry.context_length}"
    shown: ModelInformation = {
        "license": "",
        "modelfile": f"FROM {entry.id}\n",
        "parameters": parameters,
        "template": _template(model),
        "details": _details(entry),
        "model_info": info,
        "capabilities": model.capabilities,
        "modified_at": _time(entry),
    }
    return to_json(shown)


def digest(entry: ModelEntry) -> str:
    """64 hexadecimal digits that change when the model does. Of what is known without reading the
    weights, so that it is no checksum of them."""
    known = f"{entry.path}\n{entry.id}\n{entry.weight_bytes}\n{entry.created}"
    return hashlib.sha256(known.encode(errors="surrogateescape")).hexdigest()


def _template(model: ShownModel) -> str:
    template = model.template or ""
    if model.fills_in:
        # A comment of Jinja's. Clients look for the name to know whether they may send a suffix.
        template += "{# .Prompt and .Suffix: the text between them can be asked for #}"
    return template


def _details(entry: ModelEntry) -> ModelDetails:
    family = entry.model_type or "unknown"
    size = _SIZE.search(entry.id.rpartition("/")[2])
    return {
        "parent_model": entry.base.id if entry.base is not None else "",
        "format": "mlx",
        "family": family,
        "families": [family],
        "parameter_size": size[1].upper() if size else "",
        "quantization_level": entry.quantization or "none",
    }


def _expiry(time_s: float | None) -> str:
    if time_s is None:
        return _NEVER
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


def _time(entry: ModelEntry) -> str:
    return datetime.fromtimestamp(entry.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
