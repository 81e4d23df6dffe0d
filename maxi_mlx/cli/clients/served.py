"""What server a client is to use, and which of its models: asked of the server where it runs, else
read off the folders that it would serve.

Blocks on the network and the file system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.roots import default_roots
from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.cli.clients.guide import Server
from maxi_mlx.cli.running_server import find_running_server, own_url
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings

WRITES_TEXT = ("language", "vision")
WRITER_TYPES = ("llm", "vlm")  # as LM Studio's list calls them


def find_server(
    settings: Settings, *, url: str | None, api_key: str | None, model: str | None
) -> Server:
    """Raises SetupError where no model can be told."""
    running = find_running_server(settings, url=url, api_key=api_key)
    if running is not None:
        return _asked(running, model)
    key = api_key or (settings.api_keys[0] if settings.api_keys else None)
    return _read_off(settings, own_url(settings), key, model)


def _asked(server: Connection, name: str | None) -> Server:
    if name is not None:
        found = _model(server, name)
        if found["type"] not in WRITER_TYPES:
            raise _no_writer(found["id"])
    else:
        found = _usual(server)
    return Server(
        url=server.url,
        api_key=server.api_key,
        model=found["id"],
        context_length=found.get("max_context_length"),
        takes_tools="tool_use" in found["capabilities"],
        sees="vision" in found["capabilities"],
    )


def _usual(server: Connection) -> Any:
    """What a request that names no model gets; of several that are loaded, the first."""
    settings = server.get("/health").get("settings", {})
    models = [m for m in server.get("/api/v0/models")["data"] if m["type"] in WRITER_TYPES]
    named = [settings.get(field, {}).get("value") for field in ("model", "fallback_model")]
    loaded = [model["id"] for model in models if model["state"] == "loaded"]
    for name in (named[0], *loaded[:1], named[1]):
        if name is not None:
            found = _model(server, name)
            if found["type"] in WRITER_TYPES:
                return found
    only = _only([model["id"] for model in models])
    return next(model for model in models if model["id"] == only)


def _model(server: Connection, name: str) -> Any:
    return server.get(f"/api/v0/models/{quote(name, safe='/')}")


def _no_writer(name: str) -> SetupError:
    return SetupError(f"{name} does not chat, as a client's model has to; name another by --model")


def _only(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if not names:
        raise SetupError(
            "there is no model that chats yet: `maxi-mlx pull smollm2` fetches a small one"
        )
    shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
    raise SetupError(f"there are several models; choose one by --model: {shown}")


def _read_off(settings: Settings, url: str, key: str | None, name: str | None) -> Server:
    from maxi_mlx.server.lm_studio import takes_tools

    catalog = Catalog(default_roots(settings.model_dirs), settings.models)
    entry = _entry(catalog, name or settings.model)
    if entry.problem is not None:
        raise SetupError(f"{entry.id} can't be served: {entry.problem}")
    if entry.kind not in WRITES_TEXT:
        raise _no_writer(entry.id)
    return Server(
        url=url,
        api_key=key,
        model=entry.id,
        context_length=entry.context_length,
        takes_tools=takes_tools(entry),
        sees=entry.sees,
    )


def _entry(catalog: Catalog, name: str | None) -> ModelEntry:
    if name is None:
        entries = catalog.entries()
        name = _only(
            [printable(e.id) for e in entries if e.problem is None and e.kind in WRITES_TEXT]
        )
    return catalog.find(name)
