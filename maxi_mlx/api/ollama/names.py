"""Bodies that name a model, for ``/api/show``, ``/api/pull`` and what changes models."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from maxi_mlx.api.ollama.answer_schema import StatusLine
from maxi_mlx.api.ollama.schema import CopyBody, NamedBody
from maxi_mlx.api.openai.decode import decode
from maxi_mlx.api.openai.embeddings import checked_model
from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import InvalidRequest

_NAMED = msgspec.json.Decoder(NamedBody)
_COPY = msgspec.json.Decoder(CopyBody)
_SECOND_NAME = re.compile(r"[\w.@+-][\w.:/@+-]{0,199}")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCall:
    """``name`` is to be a second one for the model ``source``."""

    source: str
    name: str


def parse_copy(body: bytes) -> CopyCall:
    """Raises `InvalidRequest` for what can be no name."""
    fields = decode(body, _COPY)
    source = checked_model(fields.source)
    if not source.strip():
        raise InvalidRequest("'source' is missing: name a model.", param="source")
    name = (fields.destination or "").strip()
    if _SECOND_NAME.fullmatch(name) is None:
        raise InvalidRequest(
            "'destination' must be a name: up to 200 letters, digits and '.', '-', '_', ':', '/', "
            "'@' or '+', not beginning with '/'.",
            param="destination",
        )
    return CopyCall(source=source, name=name)


def status_line(
    status: str,
    *,
    digest: str | None = None,
    completed: int | None = None,
    total: int | None = None,
) -> bytes:
    """A line of progress; ``completed`` of ``total`` bytes are there of what ``digest`` names."""
    line: StatusLine = {"status": status}
    if digest is not None:
        line["digest"] = digest
    if total is not None:
        line["total"] = total
        line["completed"] = completed or 0
    return to_json(line) + b"\n"
