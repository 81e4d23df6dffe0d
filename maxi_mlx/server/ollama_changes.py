"""What changes the models through Ollama's API: DELETE /api/delete, POST /api/copy. The making and
the publishing of models are refused.

Whoever may use the API may do this; pages in a browser are kept out by the guard.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from maxi_mlx.api import ollama
from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import fold, printable, without_latest
from maxi_mlx.catalog.removal import planned_removal, remove
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.server.body import read_body
from maxi_mlx.server.keys import CATALOG, ENGINE
from maxi_mlx.server.ollama_models import named

logger = logging.getLogger(__name__)


async def delete(request: web.Request) -> web.Response:
    name = (await named(request)).name
    catalog = request.app[CATALOG]
    if await asyncio.to_thread(catalog.copies.remove, without_latest(name.strip())):
        return web.Response(text="")
    removal = await asyncio.to_thread(planned_removal, name, catalog)
    await request.app[ENGINE].release(removal.entry)
    await asyncio.to_thread(remove, removal, catalog)
    logger.info("removed %s from %s", removal.entry.id, printable(str(removal.path)))
    return web.Response(text="")


async def copy(request: web.Request) -> web.Response:
    call = ollama.parse_copy(await read_body(request))
    await asyncio.to_thread(_copy, request.app[CATALOG], call)
    return web.Response(text="")


async def refuse(request: web.Request) -> web.Response:
    raise InvalidRequest(
        f"{request.rel_url.raw_path[:200]} is not served: models are made and published elsewhere. "
        "Put an MLX folder where this server looks (`maxi-mlx list` shows where), or fetch one by "
        "/api/pull; the server sees it at once."
    )


def _copy(catalog: Catalog, call: ollama.CopyCall) -> None:
    entry = catalog.find(call.source)
    name = without_latest(call.name)
    if catalog.copies.target(name) is None and _is_taken(name, catalog):
        raise InvalidRequest(
            f"{printable(name)!r} is a model's own name here: choose another.", param="destination"
        )
    catalog.copies.add(name, catalog.lasting_name(entry))


def _is_taken(name: str, catalog: Catalog) -> bool:
    """What is only taken for a model, such as a name of Ollama's library, can stand for another."""
    try:
        entry = catalog.find(name)
    except ModelNotFound:
        return False
    return fold(name) in map(fold, catalog.names(entry))
