"""``maxi-mlx connect``: what a client has to be told so that it uses this server.

What is to be pasted goes to stdout, words about it to stderr.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from maxi_mlx.catalog.names import printable
from maxi_mlx.cli.clients import CLIENTS, Client
from maxi_mlx.cli.clients.documents import new_text
from maxi_mlx.cli.clients.guide import Block, Part, Server, SettingsFile
from maxi_mlx.cli.clients.served import find_server
from maxi_mlx.cli.clients.settings_file import Written, write_settings
from maxi_mlx.cli.options import check_folders, settings_of, settings_options
from maxi_mlx.cli.terminal import Paint, columns
from maxi_mlx.core.errors import SetupError

# An agent's own prompt has 10,000 tokens and more, and then there is the work.
AGENT_CONTEXT = 16_000


@click.command()
@click.argument("client", required=False)
@click.option("--write", is_flag=True, help="Put the settings into the client's own file.")
@click.option("--model", metavar="NAME", help="A model of `maxi-mlx list` (the one in use).")
@click.option("--url", metavar="URL", help="Where the server is (by the settings, this machine).")
@click.option("--api-key", metavar="KEY", help="The server's key (by the settings).")
@settings_options("model_dir")
def connect(
    *,
    client: str | None,
    write: bool,
    model: str | None,
    url: str | None,
    api_key: str | None,
    **flags: Any,
) -> None:
    """Show the settings that CLIENT needs to use this server; without CLIENT, the clients.

    With --write they go into the client's own settings file, beside what is in it; a copy of the
    file as it was is kept as FILE.bak. A client that takes its settings elsewhere says so.

    \b
    Example: maxi-mlx connect codex --write
    """
    if client is None:
        for line in columns([(each.name, each.title) for each in CLIENTS.values()]):
            click.echo(line)
        return
    chosen = _client(client)
    settings = settings_of(flags)
    check_folders(settings)
    server = find_server(settings, url=url, api_key=api_key, model=model)
    parts = chosen.guide(server)
    if write:
        _write(chosen, parts)
    else:
        _show(parts)
    _warn(server)


def _client(name: str) -> Client:
    found = CLIENTS.get(name.lower())
    if found is None:
        raise SetupError(f"no client '{name}' is known; there are {', '.join(CLIENTS)}")
    return found


def _show(parts: tuple[Part, ...]) -> None:
    paint = Paint.on(sys.stderr)
    for number, part in enumerate(parts):
        if number:
            click.echo(err=True)
        click.echo(paint(intro(part), bold=True), err=True)
        click.echo(text(part), nl=False)


def intro(part: Part) -> str:
    return (
        part.intro
        if isinstance(part, Block)
        else f"In {printable(str(part.path), max_length=4096)}:"
    )


def text(part: Part) -> str:
    return part.text if isinstance(part, Block) else new_text(part)


def _write(client: Client, parts: tuple[Part, ...]) -> None:
    files = [part for part in parts if isinstance(part, SettingsFile)]
    if not files:
        raise SetupError(
            f"{client.title} has no settings file that can be written; `maxi-mlx connect "
            f"{client.name}` shows what to do"
        )
    for file in files:
        click.echo(_report(write_settings(file)))
    # A shell's own variables would only repeat what the file says now.
    _show(tuple(part for part in parts if isinstance(part, Block) and not part.is_instead))


def _report(written: Written) -> str:
    path = printable(str(written.path), max_length=4096)
    if not written.changed:
        return f"{path} says so already"
    kept = f"; as it was, it is in {written.backup}" if written.backup is not None else ""
    return f"Wrote {', '.join(written.changed)} to {path}{kept}"


def _warn(server: Server) -> None:
    """Of what an agent needs and this model hasn't."""
    lacks = []
    if not server.takes_tools:
        lacks.append("was not taught to call tools")
    if server.context_length is not None and server.context_length < AGENT_CONTEXT:
        lacks.append(f"has a context of {server.context_length} tokens")
    if lacks:
        what = " and ".join(lacks)
        click.echo(f"{server.model} {what}: it will do for chats, not for an agent.", err=True)
