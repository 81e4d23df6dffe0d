"""Reads a request's body: whole, within the limit, and in a form that can hold JSON."""

from __future__ import annotations

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from maxi_mlx.core.errors import InvalidRequest, TooLarge, UnsupportedMedia

# What can't be JSON. Anything else is read as JSON: curl sends form-urlencoded unless told
# otherwise, and others send text/plain or nothing at all.
FOREIGN_TYPES = ("multipart/", "image/", "audio/", "video/")
ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})


async def read_body(request: web.Request) -> bytes:
    _check_headers(request)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(request.client_max_size) from error
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise InvalidRequest(
            "The request's body broke off or is not encoded as its headers say."
        ) from error


def _check_headers(request: web.Request) -> None:
    if request.content_type.startswith(FOREIGN_TYPES):
        raise UnsupportedMedia(
            f"This endpoint takes JSON, not {request.content_type!a}. "
            "Send the body as application/json."
        )
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise UnsupportedMedia(
            f"A body with content encoding {encoding!a} can't be read. Send it plain or as gzip."
        )
    if (request.content_length or 0) > request.client_max_size:
        raise _too_large(request.client_max_size)


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"The request's body is larger than this server takes ({limit_bytes} bytes). "
        "Send less, or raise the limit with --max-body-size."
    )
