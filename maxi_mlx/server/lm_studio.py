"""/api/v0/models and /api/v1/models: what LM Studio's clients ask for.

The catalog and the models' templates are files, so they are read on another thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from functools import lru_cache

from aiohttp import web

from maxi_mlx.api import lm_studio
from maxi_mlx.api.lm_studio import ListedModel
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.status import EngineStatus
from maxi_mlx.server.body import read_body
from maxi_mlx.server.keys import CATALOG, ENGINE, RECORD


async def list_models_v0(request: web.Request) -> web.Response:
    return _json(lm_studio.models_v0(await _models(request)))


async def list_models_v1(request: web.Request) -> web.Response:
    return _json(lm_studio.models_v1(await _models(request)))


async def get_model_v0(request: web.Request) -> web.Response:
    status = request.app[ENGINE].status()
    entry = await asyncio.to_thread(request.app[CATALOG].find, request.match_info["id"])
    if entry.problem is not None:
        raise ModelNotFound(f"The model {entry.id!r} can't be served: {entry.problem}")
    [model] = await asyncio.to_thread(_listed, [entry], status)
    return _json(lm_studio.model_v0(model))


async def load_model(request: web.Request) -> web.Response:
    begun_s = time.monotonic()
    record = request[RECORD]
    record.asked_model = lm_studio.parse_load(await read_body(request))
    id = record.model = await request.app[ENGINE].load(record.asked_model)
    entry = await asyncio.to_thread(request.app[CATALOG].find, id)
    return _json(lm_studio.loaded_body(entry, took_s=time.monotonic() - begun_s))


async def unload_model(request: web.Request) -> web.Response:
    record = request[RECORD]
    record.asked_model = lm_studio.parse_unload(await read_body(request))
    record.model = await request.app[ENGINE].unload(record.asked_model)
    return _json(lm_studio.unloaded_body(record.model))


async def _models(request: web.Request) -> list[ListedModel]:
    status = request.app[ENGINE].status()
    catalog = request.app[CATALOG]

    def read() -> list[ListedModel]:
        return _listed([entry for entry in catalog.entries() if entry.problem is None], status)

    return await asyncio.to_thread(read)


def _listed(entries: Iterable[ModelEntry], status: EngineStatus) -> list[ListedModel]:
    loaded = {model.id: model.state for model in status.loaded}
    words: dict[str, lm_studio.LoadState] = {"ready": "loaded", "loading": "loading"}
    return [
        ListedModel(
            entry=entry,
            state=words.get(loaded.get(entry.id, ""), "not-loaded"),
            takes_tools=takes_tools(entry),
        )
        for entry in entries
    ]


@lru_cache(maxsize=1024)
def takes_tools(entry: ModelEntry) -> bool:
    """Whether the model's own chat template knows of tools. Reads its files."""
    # Jinja comes with it, and the server is to start without.
    from maxi_mlx.text.chat_template import chat_templates, read_template_files

    if entry.kind not in ("language", "vision"):
        return False
    try:
        files = read_template_files(entry.path, entry.settings.chat_template)
        templates = chat_templates(files)
    except (InvalidRequest, OSError):
        return False
    return any("tools" in text for text in templates.values())


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
