"""GET /openapi.json: what this server serves, in OpenAPI's form."""

from __future__ import annotations

from aiohttp import web

from maxi_mlx.server.keys import DESCRIPTION


async def openapi(request: web.Request) -> web.Response:
    body = await request.app[DESCRIPTION].body()
    return web.Response(body=body, content_type="application/json")
