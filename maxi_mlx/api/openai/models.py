"""The bodies of ``/models`` and ``/models/{id}``."""

from __future__ import annotations

from collections.abc import Iterable

from maxi_mlx.api.openai.answer_schema import ModelItem
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.models import ABILITIES, ModelEntry


def models_body(entries: Iterable[ModelEntry]) -> bytes:
    """A list of just these entries: which models to show is the caller's choice."""
    return to_json({"object": "list", "data": [_model(entry) for entry in entries]})


def model_body(entry: ModelEntry) -> bytes:
    return to_json(_model(entry))


def _model(entry: ModelEntry) -> ModelItem:
    organisation = entry.org_name.partition("/")[0] if entry.org_name else "local"
    model: ModelItem = {
        "id": entry.id,
        "object": "model",
        "created": entry.created,
        "owned_by": organisation,
        "kind": entry.kind,
        "abilities": [*ABILITIES.get(entry.kind, ()), *(["images"] if entry.sees else [])],
    }
    # Beyond OpenAI's keys, under the names that clients look for. Absent where unknown: some
    # clients take a missing number, but not null.
    if entry.context_length is not None:
        model["context_length"] = model["max_model_len"] = entry.context_length
    if entry.base is not None:
        model["parent"] = entry.base.id
    if entry.settings.aliases:
        model["aliases"] = list(entry.settings.aliases)
    if entry.quantization is not None:
        model["quantization"] = entry.quantization
    if (form := entry.embedding) is not None:
        model["pooling"] = "+".join(form.pooling)
        model["pooling_source"] = form.source
        model["prompts"] = [name for name, _ in form.prompts]
    return model
