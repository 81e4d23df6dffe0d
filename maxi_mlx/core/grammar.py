"""What an answer may be, as values: a small algebra of texts, JSON, patterns and grammars.

A wire format or a tool syntax builds a node; the engine compiles it for a model's tokenizer. JSON
schemas are kept as text, so that nodes are hashable and the order of properties stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Syntax:
    """Exactly this text of a model's own syntax: names of special tokens in it stand for the
    tokens. Never made of what a client sent."""

    text: str


@dataclass(frozen=True, slots=True)
class Json:
    """JSON that a schema allows; ``schema`` is JSON text."""

    schema: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text that a regular expression matches as a whole (Rust's syntax, no look-around; ``\\d`` and
    ``\\w`` are ASCII's)."""

    regex: str


@dataclass(frozen=True, slots=True)
class Lark:
    """A grammar in llguidance's dialect of Lark; it starts at ``start``."""

    text: str


@dataclass(frozen=True, slots=True)
class Gbnf:
    """A grammar in llama.cpp's notation; it starts at ``root``."""

    text: str


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text; with ``until``, the shortest that ends with it (as `Syntax` has it). Without, it
    takes all that follows, so nothing can come after it.

    ``least`` and ``most`` bound the characters before ``until``; ``pattern`` must match somewhere
    in them, and they must be of the ``format``, as in JSON Schema; they can't contain ``without``.
    """

    until: str | None = None
    least: int = 0
    most: int | None = None
    pattern: str | None = None
    format: str | None = None
    without: str | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    """Any one of them."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class InOrder:
    """All of them, one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same from ``least`` to ``most`` times; None is without an end."""

    part: Node
    least: int = 0
    most: int | None = None


Node = Literal | Syntax | Json | Pattern | Lark | Gbnf | FreeText | OneOf | InOrder | Repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What an answer may be. ``param`` is the request's field that asked for it, for errors.

    With ``thought_end``, such as ``</think>``, the answer begins with a thought that is free and
    ends there. ``thought_begin`` is its beginning where the prompt does not hold it already: then
    the thought may also be left out.
    """

    node: Node
    param: str
    thought_end: str | None = None
    thought_begin: str | None = None


ANY_JSON_OBJECT = Json('{"type": "object"}')
MAX_BLANKS = 4
BLANKS = Pattern(f"[ \\n]{{0,{MAX_BLANKS}}}")  # around JSON in tags


def json_by_schema(schema: Mapping[str, Any] | bool) -> Json:
    return Json(json.dumps(schema, ensure_ascii=False))


def any_of_texts(texts: Sequence[str]) -> OneOf:
    return OneOf(tuple(Literal(text) for text in texts))
