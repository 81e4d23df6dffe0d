"""Bodies that name a model, for ``/api/show``, ``/api/pull`` and what changes models."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from maxi_mlx.api.ollama.answer_schema import StatusLine
from maxi_mlx.api.ollama.schema import NamedBody
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.embeddings import checked_model
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import InvalidRequest

_NAMED = msgspec.json.Decoder(NamedBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCall:
    """``stream`` is of ``/api/pull``: whether its progress is told line by line."""

    name: str
    stream: bool


def parse_named(body: bytes) -> NamedCall:
    """Raises `InvalidRequest` where no model is named."""
    fields = decode(body, _NAMED)
    name = checked_model(fields.model or fields.name)
    if not name.strip():
        raise InvalidRequest("'model' is missing: name a model.", param="model")
    return NamedCall(name=name, stream=fields.stream is not False)


def status_line(status: str, *, completed: int | None = None, total: int | None = None) -> bytes:
    """A line of progress; ``completed`` of ``total`` bytes are there."""
    line: StatusLine = {"status": status}
    if total is not None:
        line["total"] = total
        line["completed"] = completed or 0
    return to_json(line) + b"\n"
