"""``maxi-mlx chat``: a conversation at the terminal."""

from __future__ import annotations

import sys
from typing import Any

import click

from maxi_mlx.catalog.roots import home_models_dir
from maxi_mlx.cli.asking.server import AskedServer, server_options
from maxi_mlx.cli.completing import complete_writer
from maxi_mlx.core.errors import SetupError

HISTORY = "chat_history"


@click.command()
@click.argument("model", required=False, shell_complete=complete_writer)
@click.option("--system", metavar="TEXT", help="What the model is told first.")
@server_options
def chat(*, model: str | None, system: str | None, **flags: Any) -> None:
    """Talk with MODEL, or with the one in use.

    Ctrl-C stops an answer, Ctrl-D leaves, /help tells the rest. What was typed is found again with
    the arrow keys, also the next time.

    \b
    Example: maxi-mlx chat --system "Answer in one sentence."
    """
    from maxi_mlx.cli.chatting.keyboard import PipedLines, Source, TypedLines
    from maxi_mlx.cli.chatting.session import Session

    if sys.stdin is None:
        raise SetupError("there is nothing to read from; `maxi-mlx run` asks one question")
    with AskedServer(flags) as server:
        session = Session(server, system=system)
        session.choose_model(model)
        source: Source = PipedLines()
        if sys.stdin.isatty() and sys.stdout.isatty():
            session.load_meanwhile()
            source = TypedLines(home_models_dir().parent / HISTORY, session.choices)
        session.run(source)
