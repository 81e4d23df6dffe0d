"""Gives each request its id and record; at its end it is counted and has one line in the log."""

from __future__ import annotations

import asyncio
import json
import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from maxi_mlx.server.keys import METRICS, PROTOCOLS, RECORD, RUNNING, SETTINGS
from maxi_mlx.server.prompt_log import PromptLog
from maxi_mlx.server.record import RequestRecord

logger = logging.getLogger("maxi_mlx.requests")

CLIENT_LEFT_STATUS = 499  # never sent, as nobody is there to read it; proxies log the same number
BROKEN_STATUS = 500  # not sent either, as the answer had begun
LOGGED_PATH_LENGTH = 200
# Asked every few seconds by whoever watches, or a dozen at once by a browser.
QUIET_ROUTES = frozenset({"root", "page", "health", "live", "ready", "metrics", "status"})


@web.middleware
async def recording(request: web.Request, handler: Handler) -> web.StreamResponse:
    record = RequestRecord(
        method=request.method, path=request.rel_url.raw_path[:LOGGED_PATH_LENGTH]
    )
    if request.app[SETTINGS].log_prompts:
        record.prompt_log = PromptLog(record.id)
    request[RECORD] = record
    resource = request.match_info.route.resource
    record.protocol = request.app[PROTOCOLS].get(resource) if resource is not None else None
    try:
        with request.app[RUNNING].one():
            response = await handler(request)
    except (asyncio.CancelledError, ConnectionError):
        if not record.goes_on:
            record.status = CLIENT_LEFT_STATUS
            record.reason = "client_left" if request.transport is None else "cancelled"
        raise
    except Exception:
        record.status = BROKEN_STATUS
        raise
    else:
        record.status = response.status
        return response
    finally:
        if _is_quiet(request) and record.reason is None:
            _log(record, level=logging.DEBUG)
        elif not record.goes_on:
            finish(request.app, record)


def finish(app: web.Application, record: RequestRecord) -> None:
    """The end of a request: what is counted and what is logged are the same."""
    app[METRICS].count(record)
    if record.prompt_log is not None:
        record.prompt_log.close()
    _log(record, level=logging.INFO)


def _is_quiet(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    return request.method == "OPTIONS" or (resource is not None and resource.name in QUIET_ROUTES)


def _shown(value: str | int | float) -> str:
    text = str(value)
    # A name out of a request may hold line breaks and a terminal's control codes.
    return text if text.isprintable() and " " not in text else json.dumps(text)


def _log(record: RequestRecord, *, level: int) -> None:
    # ``fields`` rides along for a formatter that writes JSON.
    if logger.isEnabledFor(level):
        fields = record.fields()
        # The path names the protocol, and where there is one, it is POST unless said.
        left_out = {"protocol"}
        if record.protocol is not None and record.method == "POST":
            left_out.add("method")
        text = " ".join(
            f"{name}={_shown(value)}" for name, value in fields.items() if name not in left_out
        )
        logger.log(level, "%s", text, extra={"fields": fields})
