"""GET /v1/models and /v1/models/{id}. The catalog reads files, so it is asked on another thread."""

from __future__ import annotations

import asyncio

from aiohttp import web

from maxi_mlx.api import openai
from maxi_mlx.core.errors import ModelNotFound
from maxi_mlx.server.keys import CATALOG


async def list_models(request: web.Request) -> web.Response:
    entries = await asyncio.to_thread(request.app[CATALOG].entries)
    servable = [entry for entry in entries if entry.problem is None]
    return web.Response(body=openai.models_body(servable), content_type="application/json")


async def get_model(request: web.Request) -> web.Response:
    name = request.match_info["id"]
    entry = await asyncio.to_thread(request.app[CATALOG].find, name)
    if entry.problem is not None:
        raise ModelNotFound(f"The model {entry.id!r} can't be served: {entry.problem}")
    return web.Response(body=openai.model_body(entry), content_type="application/json")
