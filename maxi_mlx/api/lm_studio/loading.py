"""Bodies that load and unload a model; what LM Studio lets them say besides is skipped unread."""

from __future__ import annotations

import msgspec

from maxi_mlx.api.lm_studio.answer_schema import LoadedInstance, UnloadedInstance
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.embeddings import checked_model
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import ModelEntry


class LoadBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None


class UnloadBody(msgspec.Struct, frozen=True, kw_only=True):
    """A model has one instance, which is called as the model is."""

    instance_id: str | None = None


_LOAD = msgspec.json.Decoder(LoadBody)
_UNLOAD = msgspec.json.Decoder(UnloadBody)


def parse_load(body: bytes) -> str:
    """The model's name; raises `InvalidRequest`."""
    return _named(decode(body, _LOAD).model, "model")


def parse_unload(body: bytes) -> str:
    return _named(decode(body, _UNLOAD).instance_id, "instance_id")


def loaded_body(entry: ModelEntry, *, took_s: float) -> bytes:
    answer: LoadedInstance = {
        "type": "embedding" if entry.kind == "embedding" else "llm",
        "instance_id": entry.id,
        "load_time_seconds": round(took_s, 3),
        "status": "loaded",
    }
    return to_json(answer)


def unloaded_body(id: str) -> bytes:
    answer: UnloadedInstance = {"instance_id": id}
    return to_json(answer)


def _named(name: str | None, param: str) -> str:
    wanted = checked_model(name)
    if not wanted.strip():
        raise InvalidRequest(f"'{param}' is missing: name a model.", param=param)
    return wanted
