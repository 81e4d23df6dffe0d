"""GET /metrics: what is counted of requests, and the engine's figures as they are then."""

from __future__ import annotations

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from maxi_mlx.server.keys import METRICS


async def metrics(request: web.Request) -> web.Response:
    text = request.app[METRICS].text()
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
