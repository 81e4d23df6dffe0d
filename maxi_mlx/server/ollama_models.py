"""GET /api/tags, /api/ps, /api/version, and POST /api/show.

The catalog and the models' tokens are files, so they are read on another thread.
"""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from pathlib import Path

import msgspec
from aiohttp import web

from maxi_mlx.api import ollama
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.server.body import read_body
from maxi_mlx.server.keys import CATALOG, ENGINE, RECORD
from maxi_mlx.server.lm_studio import takes_tools

# The version of Ollama whose API this is. Clients look at it for what they may use.
API_VERSION = "0.13.5"

_WRITERS = ("language", "vision")


async def version(_: web.Request) -> web.Response:
    return _json(msgspec.json.encode({"version": API_VERSION}))


async def tags(request: web.Request) -> web.Response:
    catalog = request.app[CATALOG]

    def read() -> bytes:
        return ollama.tags_body((*catalog.entries(), *catalog.copied_entries()))

    return _json(await asyncio.to_thread(read))


async def running(request: web.Request) -> web.Response:
    loaded = {model.id: model for model in request.app[ENGINE].status().loaded}
    now_s = time.time()
    entries = await asyncio.to_thread(request.app[CATALOG].entries)
    models = [
        ollama.RunningModel(
            entry=entry,
            size_bytes=entry.weight_bytes + loaded[entry.id].kv_cache_bytes,
            expires_at=None if left_s is None else now_s + left_s,
        )
        for entry in entries
        if entry.id in loaded and loaded[entry.id].state == "ready"
        for left_s in (loaded[entry.id].expires_in_s,)
    ]
    return _json(ollama.ps_body(models))


async def show(request: web.Request) -> web.Response:
    name = (await named(request)).name
    catalog = request.app[CATALOG]

    def read() -> bytes:
        entry = catalog.find(name)
        if entry.problem is not None:
            raise ModelNotFound(f"The model {entry.id!r} can't be served: {entry.problem}")
        return ollama.show_body(shown_model(entry))

    return _json(await asyncio.to_thread(read))


async def named(request: web.Request) -> ollama.NamedCall:
    call = ollama.parse_named(await read_body(request))
    request[RECORD].asked_model = call.name
    return call


@lru_cache(maxsize=1024)
def shown_model(entry: ModelEntry) -> ollama.ShownModel:
    """Reads the model's files."""
    # Jinja comes with it, and the server is to start without.
    from maxi_mlx.engine.fill_in_middle import fill_in_middle_prompt
    from maxi_mlx.text.chat_template import chat_templates, read_template_files
    from maxi_mlx.text.reasoning import find_reasoning_format

    if entry.kind not in _WRITERS:
        return ollama.ShownModel(entry=entry)
    try:
        files = read_template_files(entry.path, entry.settings.chat_template)
        templates = chat_templates(files)
    except (InvalidRequest, OSError):
        templates = {}
    names = _special_tokens(entry.path)
    texts = "\n".join(templates.values()) or None
    return ollama.ShownModel(
        entry=entry,
        template=templates.get("default"),
        takes_tools=takes_tools(entry),
        thinks=find_reasoning_format(texts, names) is not None,
        fills_in=fill_in_middle_prompt("", "", has_token=names.__contains__) is not None,
    )


class _Token(msgspec.Struct):
    content: str


class _Tokenizer(msgspec.Struct):
    """The vocabulary itself is skipped unread."""

    added_tokens: list[_Token] = []


def _special_tokens(folder: Path) -> frozenset[str]:
    try:
        tokenizer = msgspec.json.decode((folder / "tokenizer.json").read_bytes(), type=_Tokenizer)
    except (OSError, msgspec.DecodeError):
        return frozenset()
    return frozenset(token.content for token in tokenizer.added_tokens)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
