"""POST /api/pull: says that a model is there, or fetches it: from the hub, or the embedded one.

The embedded one's fetching goes on when its client leaves: the next one who asks for it waits for
the same files. For the hub's models see `hub_downloads`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from maxi_mlx.api import ollama
from maxi_mlx.catalog.pull.hub.repository import parse_repository
from maxi_mlx.catalog.pull.source import SMOLLM2, SMOLLM2_NAMES
from maxi_mlx.core.errors import MaxiError, ModelNotFound
from maxi_mlx.server.keys import CATALOG, HUB_DOWNLOADS, RECORD
from maxi_mlx.server.line_progress import LineProgress, Step
from maxi_mlx.server.ollama import LINES
from maxi_mlx.server.ollama_models import named
from maxi_mlx.server.stream import HEADERS

logger = logging.getLogger(__name__)

SUCCESS = "success"


async def pull(request: web.Request) -> web.StreamResponse:
    call = await named(request)
    send = _streamed if call.stream else _whole
    steps: asyncio.Queue[Step] = asyncio.Queue()
    if await asyncio.to_thread(_is_there, request, call.name):
        steps.put_nowait(None)
        return await send(request, steps)
    if call.name.lower() in SMOLLM2_NAMES:
        _fetch(steps)
        return await send(request, steps)
    repository = parse_repository(call.name)
    if repository is None:
        raise ModelNotFound(
            f"The model {call.name[:200]!r} is not here and can't be fetched: name it as the "
            "Hugging Face hub does, such as mlx-community/Qwen3-4B-Instruct-2507-4bit, or smollm2 "
            "for a small one to begin with.",
            param="model",
        )
    with request.app[HUB_DOWNLOADS].following(repository) as steps:
        return await send(request, steps)


def _is_there(request: web.Request, name: str) -> bool:
    try:
        return request.app[CATALOG].find(name).problem is None
    except ModelNotFound:
        return False


async def _whole(_: web.Request, steps: asyncio.Queue[Step]) -> web.StreamResponse:
    while (step := await steps.get()) is not None:
        if isinstance(step, MaxiError):
            raise step
    return web.Response(body=ollama.status_line(SUCCESS), content_type="application/json")


async def _streamed(request: web.Request, steps: asyncio.Queue[Step]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": LINES})
    await response.prepare(request)
    await response.write(ollama.status_line("pulling manifest"))
    while (step := await steps.get()) is not None:
        if isinstance(step, MaxiError):
            request[RECORD].observe_error(step)
            await response.write_eof(ollama.error_body(step) + b"\n")
            return response
        await response.write(step)
    await response.write_eof(ollama.status_line(SUCCESS))
    return response


def _fetch(steps: asyncio.Queue[Step]) -> None:
    loop = asyncio.get_running_loop()

    def tell(step: Step) -> None:
        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(steps.put_nowait, step)

    # A daemon, so that a download doesn't hold up the server's end. What it has is kept.
    threading.Thread(target=_run, args=(tell,), name="pull", daemon=True).start()


def _run(tell: Callable[[Step], None]) -> None:
    # They bring numpy and the tokenizers, and the server is to start without.
    from maxi_mlx.catalog.pull.embedded import pull_embedded
    from maxi_mlx.engine.precision import best_precision

    try:
        pull_embedded(best_precision(), LineProgress(tell))
    except MaxiError as error:
        tell(error)
        return
    except Exception:
        logger.exception("fetching %s failed", SMOLLM2.name)
        tell(MaxiError(f"{SMOLLM2.name} could not be fetched. The server's log says why."))
        return
    tell(ollama.status_line(f"its name here is {SMOLLM2.name}"))
    tell(None)
