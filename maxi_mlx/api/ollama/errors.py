"""Ollama's error: an object with one text. A line of a stream that breaks is the same."""

from __future__ import annotations

from maxi_mlx.api.openai.sse import to_json
from maxi_mlx.core.errors import MaxiError


def error_body(error: MaxiError) -> bytes:
    return to_json({"error": error.message})
