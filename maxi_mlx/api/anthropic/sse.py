"""Frames of Anthropic's event streams: each names its type twice."""

from __future__ import annotations

from typing import Any

from maxi_mlx.api.openai.sse import to_json


def frame(data: dict[str, Any]) -> bytes:
    """``data`` has a ``type``, which the event's line repeats: clients look at that line alone."""
    return raw_frame(data["type"], to_json(data))


def raw_frame(name: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


PING = frame({"type": "ping"})
