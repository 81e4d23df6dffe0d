"""Anthropic's Messages API: schema (the wire), parse (wire to request), write (events to bytes)."""

from __future__ import annotations

from maxi_mlx.api.anthropic.answer import MessageAnswer
from maxi_mlx.api.anthropic.errors import error_body
from maxi_mlx.api.anthropic.models import model_body, models_body
from maxi_mlx.api.anthropic.parse import MessageCall, parse_count, parse_message
from maxi_mlx.api.anthropic.sse import PING
from maxi_mlx.api.anthropic.stream import MessageStreamWriter

__all__ = [
    "PING",
    "MessageAnswer",
    "MessageCall",
    "MessageStreamWriter",
    "error_body",
    "model_body",
    "models_body",
    "parse_count",
    "parse_message",
]
