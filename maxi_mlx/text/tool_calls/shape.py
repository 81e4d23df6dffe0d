"""How a tool call is written, as values that a grammar can be made of. Neither is made here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text. ``Literal("<tag>")`` of a special token's name is that token."""

    text: str


@dataclass(frozen=True, slots=True)
class JsonBySchema:
    """The text of a JSON value that fits ``schema``."""

    schema: Mapping[str, Any] | bool


@dataclass(frozen=True, slots=True)
class RawText:
    """A string written without quotes or escapes, up to but without ``until``, which it can't
    contain; its value fits ``schema`` (of type string)."""

    schema: Mapping[str, Any]
    until: str


@dataclass(frozen=True, slots=True)
class AnyOf:
    choices: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``part`` at least ``least`` and at most ``most`` times (None: any number)."""

    part: Shape
    least: int = 0
    most: int | None = None
    separator: str = ""


Shape = Literal | JsonBySchema | RawText | AnyOf | Sequence | Repeat


def optional(part: Shape) -> Shape:
    return Repeat(part, 0, 1)
