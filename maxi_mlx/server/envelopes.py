"""Which API a request speaks, as far as it matters for lists of models and for errors."""

from __future__ import annotations

from itertools import dropwhile

from aiohttp import web

from maxi_mlx.api import anthropic, openai
from maxi_mlx.core.errors import MaxiError
from maxi_mlx.server.keys import RECORD


def speaks_anthropic(request: web.Request) -> bool:
    """By the header that all of Anthropic's clients send, or by the path, which no other has."""
    words = dropwhile(lambda word: word in ("", "v1"), request.path.split("/"))
    return "Anthropic-Version" in request.headers or next(words, "") == "messages"


def error_body(request: web.Request, error: MaxiError) -> bytes:
    if speaks_anthropic(request):
        return anthropic.error_body(error, request_id=request[RECORD].id)
    return openai.error_body(error)
