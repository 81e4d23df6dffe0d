"""What server a client is to use, and which of its models: asked of the server where it runs, else
read off the folders that it would serve.

Blocks on the network and the file system.
"""

from __future__ import annotations

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import printable
from maxi_mlx.cli.asking import models
from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.cli.clients.guide import Server
from maxi_mlx.cli.options import catalog_of
from maxi_mlx.cli.running_server import find_running_server, own_url
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings

WRITES_TEXT = ("language", "vision")
HOW = "choose one by --model"


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
    found = models.usual(server, how=HOW) if name is None else models.named(server, name)
    return Server(
        url=server.url,
        api_key=server.api_key,
        model=found.id,
        context_length=found.context_length,
        takes_tools=found.takes_tools,
        sees=found.sees,
    )


def _read_off(settings: Settings, url: str, key: str | None, name: str | None) -> Server:
    from maxi_mlx.server.lm_studio import takes_tools

    catalog = catalog_of(settings)
    entry = _entry(catalog, name or settings.model)
    if entry.problem is not None:
        raise SetupError(f"{entry.id} can't be served: {entry.problem}")
    if entry.kind not in WRITES_TEXT:
        raise models.no_writer(entry.id)
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
        plain = [e for e in entries if e.problem is None and e.base is None]
        writers = [printable(e.id) for e in plain if e.kind in WRITES_TEXT]
        name = models.the_only(writers, how=HOW)
    return catalog.find(name)
