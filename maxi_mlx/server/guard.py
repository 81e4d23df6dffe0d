"""Keeps foreign web pages out, and tells browsers that the others may come in (CORS)."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

import maxi_mlx
from maxi_mlx.core.errors import Forbidden
from maxi_mlx.server.keys import ORIGINS, RECORD

METHODS = "GET, HEAD, POST, OPTIONS"
PREFLIGHT_KEPT_S = 600  # how long a browser may remember that it was let in


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    policy = request.app[ORIGINS]
    host, origin = request.headers.get("Host"), request.headers.get("Origin")
    if not policy.allows_host(host):
        raise Forbidden(
            f"This server answers to localhost only, not to the host name {host!a}. Behind a "
            "tunnel or proxy, have it send 'Host: localhost', or name the address by --cors."
        )
    if origin is not None and not policy.allows_origin(origin, host=host):
        raise Forbidden(
            f"Web pages from {origin!a} may not use this server. Start it with "
            f"--cors {origin!a} to let them, or with --cors '*' to let every page."
        )
    if request.method == "OPTIONS":
        return _preflight(request)
    return await handler(request)


def _preflight(request: web.Request) -> web.Response:
    """Never needs a key: browsers send none here. Clients send headers that no list foresees, so
    what is asked for is granted."""
    response = web.Response(status=204, headers={"Allow": METHODS})
    asked = request.headers
    response.headers["Access-Control-Allow-Methods"] = _echo(
        asked.get("Access-Control-Request-Method"), otherwise=METHODS
    )
    response.headers["Access-Control-Allow-Headers"] = _echo(
        asked.get("Access-Control-Request-Headers"), otherwise="*"
    )
    response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_KEPT_S)
    if asked.get("Access-Control-Request-Private-Network") == "true":
        response.headers["Access-Control-Allow-Private-Network"] = "true"
    return response


def _echo(value: str | None, *, otherwise: str) -> str:
    # Bytes that are not text can be received but not sent.
    return value if value is not None and value.isascii() else otherwise


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Runs before the headers of every answer leave: a middleware comes too late for streams."""
    record = request.get(RECORD)
    if record is not None:
        # Anthropic's clients look for the second.
        response.headers["X-Request-Id"] = response.headers["Request-Id"] = record.id
    response.headers["Server"] = f"maxi-mlx/{maxi_mlx.__version__}"
    response.headers["Vary"] = ", ".join([*response.headers.getall("Vary", ()), "Origin"])
    origin = request.headers.get("Origin")
    if origin is None:
        return
    if request.app[ORIGINS].allows_origin(origin, host=request.headers.get("Host")):
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = "X-Request-Id, Request-Id, Retry-After"
