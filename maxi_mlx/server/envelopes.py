"""Which API a request speaks, as far as it matters for lists of models and for errors."""

from __future__ import annotations

from itertools import dropwhile

from aiohttp import web

from maxi_mlx.api import anthropic, ollama, openai
from maxi_mlx.core.errors import MaxiError
from maxi_mlx.server.keys import RECORD


def speaks_anthropic(request: web.Request) -> bool:
    """By the header that all of Anthropic's clients send, or by the path, which no other has."""
    return "Anthropic-Version" in request.headers or _words(request)[:1] == ["messages"]


def speaks_ollama(request: web.Request) -> bool:
    """By the path; LM Studio's begin with the same word, and its errors are OpenAI's."""
    words = _words(request)
    return words[:1] == ["api"] and words[1:2] not in (["v0"], ["v1"])


def _words(request: web.Request) -> list[str]:
    """The path's words behind any ``v1``."""
    words = [word for word in request.path.split("/") if word]
    return list(dropwhile(lambda word: word == "v1", words))


def error_body(request: web.Request, error: MaxiError) -> bytes:
    if speaks_anthropic(request):
        return anthropic.error_body(error, request_id=request[RECORD].id)
    if speaks_ollama(request):
        return ollama.error_body(error)
    return openai.error_body(error)
