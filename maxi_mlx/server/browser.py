"""The web page at ``/`` and its files.

Programs look at ``/`` too, to see whether a server is there, and get a line of text.
"""

from __future__ import annotations

from aiohttp import web

import maxi_mlx
from maxi_mlx.server.keys import PAGE_FILES

INDEX = "index.html"
# What a model says becomes text on the page and nothing else. Should that ever fail: no script but
# the page's own files runs, and nothing is sent to, or fetched from, any other place.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # It is asked for again each time, and sent again where another version was installed.
    "Cache-Control": "no-cache",
}


async def root(request: web.Request) -> web.Response:
    """Browsers say that they take HTML, and programs don't."""
    if "text/html" in request.headers.get("Accept", ""):
        return await _file(request, INDEX)
    return web.Response(
        text=f"maxi-mlx {maxi_mlx.__version__} is running\n", headers={"Vary": "Accept"}
    )


async def page_file(request: web.Request) -> web.Response:
    return await _file(request, request.match_info["file"])


async def _file(request: web.Request, name: str) -> web.Response:
    file = await request.app[PAGE_FILES].get(name)
    headers = {**HEADERS, "ETag": f'"{file.etag}"', "Vary": "Accept"}
    if any(tag.value in (file.etag, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(
        body=file.body, content_type=file.content_type, charset="utf-8", headers=headers
    )
