"""``maxi-mlx ps``: what the running server has in memory."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from maxi_mlx.catalog.names import printable
from maxi_mlx.cli.options import settings_of, settings_options
from maxi_mlx.cli.running_server import OPTION_WORDS, loaded_models, running_server, server_options
from maxi_mlx.cli.terminal import Paint, columns, size_text

HEADS = ("MODEL", "LOADED", "WEIGHTS", "CACHE", "ANSWERS", "STAYS")


@click.command("ps")
@server_options
@settings_options("port", words=OPTION_WORDS)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, for programs.")
def list_loaded(*, url: str | None, api_key: str | None, as_json: bool, **flags: Any) -> None:
    """Show the models that the running server has in memory.

    With how long they are there, what their weights and the prompts kept for them take, how many
    answers they are writing, and how long they stay if nobody asks them again.

    \b
    Example: maxi-mlx ps --json
    """
    server = running_server(settings_of(flags), url=url, api_key=api_key)
    models = [described(model) for model in loaded_models(server)]
    if as_json:
        click.echo(json.dumps(models, indent=2))
        return
    if not models:
        click.echo(f"No model is loaded at {server.url}: the first request loads one.")
        return
    heads, *rows = columns([HEADS, *map(_row, models)])
    click.echo(Paint.on(sys.stdout)(heads, bold=True))
    for row in rows:
        click.echo(row)


def described(model: dict[str, Any]) -> dict[str, Any]:
    """What of a loaded model a user asks for, under the names of `maxi_mlx.engine.status`."""
    names = ("id", "path", "state", "loaded_s", "weight_bytes", "kv_cache_bytes")
    return {
        **{name: model[name] for name in names},
        "prefix_bytes": model["prefixes"]["num_bytes"],
        "num_running": model["num_running"],
        "expires_in_s": model["expires_in_s"],
        "is_pinned": model["is_pinned"],
    }


def _row(model: dict[str, Any]) -> tuple[str, ...]:
    loaded_s = model["loaded_s"]
    return (
        printable(model["id"]),
        "loading" if loaded_s is None else f"{span(loaded_s)} ago",
        size_text(model["weight_bytes"]),
        size_text(model["kv_cache_bytes"] + model["prefix_bytes"]),
        str(model["num_running"]),
        _stay(model),
    )


def _stay(model: dict[str, Any]) -> str:
    if model["is_pinned"]:
        return "pinned"
    if model["expires_in_s"] is None:
        return "until its memory is needed"
    after = " after its answers" if model["num_running"] else ""
    return f"{span(model['expires_in_s'])}{after}"


def span(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 5 min``, ``2 d 4 h``: as exact as people want it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
