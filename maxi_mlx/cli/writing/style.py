"""How a stretch of text looks, and its codes for a terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

RESET = "\x1b[0m"
_CODES = {
    "is_bold": "1",
    "is_dim": "2",
    "is_italic": "3",
    "is_underlined": "4",
    "is_struck": "9",
    "is_code": "36",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    is_bold: bool = False
    is_dim: bool = False
    is_italic: bool = False
    is_underlined: bool = False
    is_struck: bool = False
    is_code: bool = False

    def but(self, **changes: Any) -> Style:
        return replace(self, **changes)

    @property
    def code(self) -> str:
        """What switches it on; "" for plain text."""
        numbers = [number for name, number in _CODES.items() if getattr(self, name)]
        return f"\x1b[{';'.join(numbers)}m" if numbers else ""


PLAIN = Style()
DIM = Style(is_dim=True)


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    style: Style
