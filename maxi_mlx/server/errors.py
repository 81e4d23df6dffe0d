"""Turns whatever goes wrong on a request into one answer in the error envelope of its API."""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from maxi_mlx.core.errors import (
    InvalidRequest,
    MaxiError,
    MethodNotAllowed,
    NotFound,
    Unauthorized,
)
from maxi_mlx.server.envelopes import error_body
from maxi_mlx.server.gaps import gap_at
from maxi_mlx.server.keys import RECORD

logger = logging.getLogger(__name__)

SHOWN_PATH_LENGTH = 200


@web.middleware
async def error_rendering(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except MaxiError as error:
        return _answer(request, error)
    except web.HTTPException as refusal:
        response = _answer(request, _translated(request, refusal))
        if "Allow" in refusal.headers:
            response.headers["Allow"] = refusal.headers["Allow"]
        return response
    except ConnectionError:
        raise  # the client is gone
    except Exception:
        identity = request[RECORD].id
        logger.exception("request %s failed inside the server", identity)
        internal = _internal(identity)
        if request.writer.output_size:
            request[RECORD].observe_error(internal)
            raise  # too late for an answer
        return _answer(request, internal)


def _answer(request: web.Request, error: MaxiError) -> web.Response:
    request[RECORD].observe_error(error)
    response = web.Response(
        body=error_body(request, error), status=error.status, content_type="application/json"
    )
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, Unauthorized):
        response.headers["WWW-Authenticate"] = "Bearer"
    if request.content.exception() is not None:
        response.force_close()  # where this body ends and the next request begins is lost
    return response


def _translated(request: web.Request, refusal: web.HTTPException) -> MaxiError:
    """aiohttp's own refusals, which come from its router."""
    path = request.rel_url.raw_path[:SHOWN_PATH_LENGTH]
    if isinstance(refusal, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(refusal.allowed_methods))
        return MethodNotAllowed(f"{path} takes {allowed}, not {refusal.method}.")
    if isinstance(refusal, web.HTTPNotFound):
        gap = gap_at(request.path)
        reason = (
            f"{gap} not in this version of maxi-mlx yet ({path})."
            if gap is not None
            else f"There is nothing at {path}."
        )
        return NotFound(
            f"{reason} Chat is at /v1/chat/completions, the list of models at /v1/models."
        )
    return InvalidRequest(refusal.reason)


def _internal(identity: str) -> MaxiError:
    return MaxiError(
        f"Something went wrong inside the server. Its log says what, under {identity}.",
        code="internal_error",
    )
