"""API keys: whether a request carries one of the server's."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler

from maxi_mlx.core.errors import Unauthorized
from maxi_mlx.server.keys import SETTINGS

# Probes work without a key; they then say little more than that the server is up. The page asks its
# user for one.
OPEN_ROUTES = frozenset({"root", "page", "health", "live", "ready"})


@web.middleware
async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
    resource = request.match_info.route.resource
    is_open = resource is not None and resource.name in OPEN_ROUTES
    if not is_open and not is_authorized(request):
        raise Unauthorized(_complaint(request))
    return await handler(request)


def is_authorized(request: web.Request) -> bool:
    """True where no key is needed, or any of those presented is right."""
    keys = request.app[SETTINGS].api_keys
    if not keys:
        return True
    # No short cut: the time taken must not tell which key was nearly right.
    matches = [
        hmac.compare_digest(_as_bytes(given), _as_bytes(key))
        for given in _presented(request)
        for key in keys
    ]
    return any(matches)


def _presented(request: web.Request) -> Sequence[str]:
    given = [request.headers.get("X-Api-Key", ""), request.headers.get("Api-Key", "")]
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        given.append(token)
    return [stripped for text in given if (stripped := text.strip())]


def _as_bytes(text: str) -> bytes:
    # Header bytes that are not UTF-8 arrive as surrogates; compare_digest takes no such text.
    return text.encode("utf-8", "surrogateescape")


def _complaint(request: web.Request) -> str:
    if _presented(request):
        return "The API key is not one of this server's. Check the key in your client's settings."
    return (
        "This server needs an API key. Send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
    )
