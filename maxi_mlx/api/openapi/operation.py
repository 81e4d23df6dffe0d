"""What is to be said of a route: its body, its answers, its errors, as the types of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from maxi_mlx.api.openai.fields import Field

JSON = "application/json"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"

Tag = Literal["OpenAI", "Responses", "Anthropic", "Rerank", "Ollama", "LM Studio", "Server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One form of a good answer: an object of one of ``types``; in a stream, a row of them. None
    at all: plain text."""

    types: tuple[type, ...] = ()
    media_type: str = JSON
    is_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parameter in the path's query."""

    name: str
    note: str
    type: Literal["string", "integer", "boolean"] = "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """``bodies`` are the types of which a body may be, and ``fields`` says what becomes of their
    fields; of a form, it is all there is. ``parts`` are types inside of bodies, with tables of
    their own. ``errors`` are the types of error answers. Where keys are needed at all, one is
    needed here, unless ``needs_key`` is false."""

    tag: Tag
    summary: str
    answers: tuple[Content, ...]
    errors: tuple[type, ...]
    bodies: tuple[type, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict)
    parts: tuple[tuple[type, Mapping[str, Field]], ...] = ()
    is_form: bool = False
    example: Mapping[str, Any] | None = None
    query: tuple[Query, ...] = ()
    headers: tuple[Query, ...] = ()
    needs_key: bool = True


def events(*types: type) -> Content:
    """Server-sent events; each one's data is an object of one of ``types``."""
    return Content(types=types, media_type=EVENTS, is_stream=True)


def lines(*types: type) -> Content:
    """A line of JSON for each object."""
    return Content(types=types, media_type=LINES, is_stream=True)


def whole(*types: type) -> Content:
    return Content(types=types)
