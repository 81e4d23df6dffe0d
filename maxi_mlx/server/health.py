"""What the server says of itself: that it is up, how it is set, whether it takes requests.

Nothing here waits for the engine, `ready` apart: each answer is made from a snapshot.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

import maxi_mlx
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.settings import SchedulerSettings, Settings
from maxi_mlx.engine.status import EngineState
from maxi_mlx.server.auth import is_authorized
from maxi_mlx.server.keys import ENGINE, SETTINGS, STARTED_AT

HEALTH_WORDS: dict[EngineState, str] = {
    "starting": "starting",
    "ready": "ok",
    "failed": "failed",
    "draining": "draining",
}
# States in which a request would be refused, so that whoever balances load sends it elsewhere.
REFUSING: frozenset[EngineState] = frozenset({"failed", "draining"})

# A slice or a step is far shorter, on whatever machine.
DEVICE_PATIENCE_S = 5.0
NOT_YET: dict[EngineState, str] = {
    "starting": "The models named at the start are being loaded.",
    "draining": "The server is shutting down and takes no new requests.",
}


async def health(request: web.Request) -> web.Response:
    status = request.app[ENGINE].status()
    body: dict[str, Any] = {
        "status": HEALTH_WORDS[status.state],
        "version": maxi_mlx.__version__,
        "uptime_s": round(time.monotonic() - request.app[STARTED_AT], 3),
    }
    if is_authorized(request):
        body["engine"] = status
        body["settings"] = described(request.app[SETTINGS])
    return json_response(body, status=503 if status.state in REFUSING else 200)


async def live(request: web.Request) -> web.Response:
    """503 where only a new start would help."""
    if request.app[ENGINE].is_alive:
        return json_response({"status": "ok"})
    return json_response(_failure(request), status=503)


async def ready(request: web.Request) -> web.Response:
    """200 where a request would be taken now."""
    engine = request.app[ENGINE]
    state = engine.status().state
    if state == "failed":
        return json_response(_failure(request), status=503)
    if state != "ready":
        body = {"status": HEALTH_WORDS[state], "reason": NOT_YET[state]}
        return json_response(body, status=503)
    if not await engine.answers_within(DEVICE_PATIENCE_S):
        reason = f"The device has taken nothing up for {DEVICE_PATIENCE_S:g} s."
        return json_response({"status": "failed", "reason": reason}, status=503)
    return json_response({"status": "ok"})


def _failure(request: web.Request) -> dict[str, str]:
    reason = "The engine has failed; the server's log says more."
    fault = request.app[ENGINE].status().fault if is_authorized(request) else None
    return {"status": "failed", "reason": fault or reason}


def json_response(body: object, *, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )


def described(settings: Settings) -> dict[str, dict[str, Any]]:
    """Each setting with its value and what set it; of the API keys only how many there are."""
    num_keys = len(settings.api_keys)
    described = {"num_api_keys": _setting(num_keys, settings.sources.get("api_keys"))}
    for field in dataclasses.fields(Settings):
        if field.name not in ("api_keys", "scheduler", "sources"):
            value = getattr(settings, field.name)
            described[field.name] = _setting(value, settings.sources.get(field.name))
    for field in dataclasses.fields(SchedulerSettings):
        value = getattr(settings.scheduler, field.name)
        name = f"scheduler.{field.name}"
        source = settings.sources.get(name, f"strategy {settings.strategy}")
        described[name] = _setting(value, source)
    return described


def _setting(value: Any, source: str | None) -> dict[str, Any]:
    return {"value": _plain(value), "source": source or "default"}


def _said(own: ModelSettings) -> dict[str, Any]:
    """What the owner says of a model, without what is left to it."""
    silent = ModelSettings()
    fields = [f.name for f in dataclasses.fields(own) if f.name != "sampling"]
    said = {n: getattr(own, n) for n in fields if getattr(own, n) != getattr(silent, n)}
    return {name: _plain(value) for name, value in (said | dict(own.sampling)).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, ModelSettings):
        return _said(value)
    return value
