"""GET /v1/models and /v1/models/{id}, in the shape of the API that is spoken.

The catalog reads files, so it is asked on another thread.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from maxi_mlx.api import anthropic, openai
from maxi_mlx.core.errors import ModelNotFound
from maxi_mlx.server.envelopes import speaks_anthropic
from maxi_mlx.server.keys import CATALOG

WRITES_TEXT = ("language", "vision")


async def list_models(request: web.Request) -> web.Response:
    entries = await asyncio.to_thread(request.app[CATALOG].entries)
    servable = [entry for entry in entries if entry.problem is None]
    if speaks_anthropic(request):
        writers = [entry for entry in servable if entry.kind in WRITES_TEXT]
        body = anthropic.models_body(writers, request.query)
    else:
        body = openai.models_body(servable)
    return web.Response(body=body, content_type="application/json")


async def get_model(request: web.Request) -> web.Response:
    name = request.match_info["id"]
    entry = await asyncio.to_thread(request.app[CATALOG].find, name)
    if entry.problem is not None:
        raise ModelNotFound(f"The model {entry.id!r} can't be served: {entry.problem}")
    write = anthropic.model_body if speaks_anthropic(request) else openai.model_body
    return web.Response(body=write(entry), content_type="application/json")
