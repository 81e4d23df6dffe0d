"""What ``/openapi.json`` says of the routes about the server itself."""

from __future__ import annotations

from maxi_mlx.api.openai.answer_schema import ErrorBody
from maxi_mlx.api.openapi import OpenAPIDocument
from maxi_mlx.api.openapi.operation import Content, Operation, events, whole
from maxi_mlx.server.answer_schema import CacheReport, CancelledRequest, Health, Probe, Status
from maxi_mlx.server.page_files import TYPES

_ERRORS = (ErrorBody,)

ROOT = Operation(
    tag="Server",
    summary="That the server is up; for browsers, the web page.",
    answers=(Content(media_type="text/plain"), Content(media_type="text/html")),
    errors=_ERRORS,
    needs_key=False,
)

PAGE_FILE = Operation(
    tag="Server",
    summary="A file of the web page.",
    answers=tuple(Content(media_type=each) for each in TYPES.values()),
    errors=_ERRORS,
    needs_key=False,
)

HEALTH = Operation(
    tag="Server",
    summary="Whether requests are taken (else 503); with a key, how the server is set.",
    answers=(whole(Health),),
    errors=(ErrorBody, Health),
    needs_key=False,
)

LIVE = Operation(
    tag="Server",
    summary="Whether the server runs; else (503) it has to be started again.",
    answers=(whole(Probe),),
    errors=(ErrorBody, Probe),
    needs_key=False,
)

READY = Operation(
    tag="Server",
    summary="Whether a request would be taken now; else 503 with the reason.",
    answers=(whole(Probe),),
    errors=(ErrorBody, Probe),
    needs_key=False,
)

CACHE_STATS = Operation(
    tag="Server",
    summary="What the caches hold, and the device's memory.",
    answers=(whole(CacheReport),),
    errors=_ERRORS,
)

METRICS = Operation(
    tag="Server",
    summary="Counters, times and memory, in Prometheus's text format.",
    answers=(Content(media_type="text/plain"),),
    errors=_ERRORS,
)

OPENAPI = Operation(
    tag="Server",
    summary="This document.",
    answers=(whole(OpenAPIDocument),),
    errors=_ERRORS,
)

STATUS = Operation(
    tag="Server",
    summary="What the server is doing right now.",
    answers=(whole(Status),),
    errors=_ERRORS,
)

STATUS_EVENTS = Operation(
    tag="Server",
    summary="The same, once a second, for as long as somebody reads.",
    answers=(events(Status),),
    errors=_ERRORS,
)

CANCEL_REQUEST = Operation(
    tag="Server",
    summary="Ends a request that is under way; its client gets an error that says so.",
    answers=(whole(CancelledRequest),),
    errors=_ERRORS,
)
