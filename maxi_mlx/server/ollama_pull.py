"""POST /api/pull: says that a model is there, or fetches the one that can be fetched.

The fetching runs on a thread of its own, and goes on when its client leaves: the next one who asks
for it waits for the same files.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from maxi_mlx.api import ollama
from maxi_mlx.catalog.pull.progress import Unit
from maxi_mlx.catalog.pull.source import SMOLLM2, SMOLLM2_NAMES
from maxi_mlx.core.errors import MaxiError, ModelNotFound
from maxi_mlx.server.keys import CATALOG
from maxi_mlx.server.ollama import LINES
from maxi_mlx.server.ollama_models import named
from maxi_mlx.server.stream import HEADERS

logger = logging.getLogger(__name__)

SUCCESS = "success"
_BETWEEN_LINES_S = 0.2

# A line for the client, None at a good end, or what went wrong.
Step = bytes | MaxiError | None


async def pull(request: web.Request) -> web.StreamResponse:
    call = await named(request)
    steps: asyncio.Queue[Step] = asyncio.Queue()
    if await asyncio.to_thread(_is_there, request, call.name):
        steps.put_nowait(None)
    elif call.name.lower() in SMOLLM2_NAMES:
        _fetch(steps)
    else:
        raise ModelNotFound(
            f"The model {call.name[:200]!r} is not here and can't be fetched: smollm2 is all that "
            "can be yet. From the Hugging Face hub, `hf download mlx-community/NAME` fetches a "
            "model to where this server finds it.",
            param="model",
        )
    if not call.stream:
        return await _whole(steps)
    return await _streamed(request, steps)


def _is_there(request: web.Request, name: str) -> bool:
    try:
        return request.app[CATALOG].find(name).problem is None
    except ModelNotFound:
        return False


async def _whole(steps: asyncio.Queue[Step]) -> web.Response:
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


class LineProgress:
    """Tells the progress of a job as lines, a few a second. Lives on the job's thread."""

    def __init__(self, tell: Callable[[Step], None]) -> None:
        self._tell = tell
        self._status = ""
        self._total = 0
        self._completed = 0
        self._told_at_s = 0.0

    def start(self, label: str, total: int, *, unit: Unit, already: int = 0) -> None:
        self._status = label
        # Readers take the numbers for bytes.
        self._total = total if unit == "bytes" else 0
        self._completed = already
        self._line()

    def advance(self, amount: int) -> None:
        self._completed += amount
        if time.monotonic() - self._told_at_s >= _BETWEEN_LINES_S:
            self._line()

    def done(self) -> None:
        self._completed = self._total
        self._line()

    def say(self, text: str) -> None:
        self._tell(ollama.status_line(text))

    def _line(self) -> None:
        self._told_at_s = time.monotonic()
        if self._total:
            line = ollama.status_line(self._status, completed=self._completed, total=self._total)
        else:
            line = ollama.status_line(self._status)
        self._tell(line)
