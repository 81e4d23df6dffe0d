"""Texts and patterns as llguidance's Lark writes them."""

from __future__ import annotations

import json

from maxi_mlx.core.errors import InvalidRequest


def quoted(text: str) -> str:
    """A string literal. Raises `InvalidRequest` for text that is no Unicode."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{text[:40]!r} holds half a character (a lone surrogate).") from error
    return json.dumps(text, ensure_ascii=False)
