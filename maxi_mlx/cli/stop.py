"""``maxi-mlx stop``: has the running server unload a model."""

from __future__ import annotations

from typing import Any

import click

from maxi_mlx.catalog.names import printable
from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.cli.completing import complete_any_model
from maxi_mlx.cli.options import settings_of, settings_options
from maxi_mlx.cli.running_server import OPTION_WORDS, loaded_models, running_server, server_options


@click.command()
@click.argument("model", shell_complete=complete_any_model)
@server_options
@settings_options("port", words=OPTION_WORDS)
def stop(*, model: str, url: str | None, api_key: str | None, **flags: Any) -> None:
    """Have the running server unload MODEL, and give its memory back.

    Answers that it is writing are finished first. The next request loads it again; the server
    itself is stopped by Ctrl-C.

    \b
    Example: maxi-mlx stop Qwen3-4B-4bit
    """
    server = running_server(settings_of(flags), url=url, api_key=api_key)
    click.echo(stopped(server, model))


def stopped(server: Connection, name: str) -> str:
    """Unloads the model, and says what became of it."""
    before = {model["id"] for model in loaded_models(server)}
    id = server.send("POST", "/api/v1/models/unload", {"instance_id": name})["instance_id"]
    if id not in before:
        return f"{printable(id)} is not loaded"
    if id in {model["id"] for model in loaded_models(server)}:
        return f"{printable(id)} goes as soon as its answers are written"
    return f"{printable(id)} is unloaded"
