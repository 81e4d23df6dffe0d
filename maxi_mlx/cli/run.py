"""``maxi-mlx run``: one question, and its answer on stdout as it comes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from maxi_mlx.cli.asking import models
from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.cli.asking.inert import inert
from maxi_mlx.cli.asking.models import Writer
from maxi_mlx.cli.asking.notice import Notice, notice_on, waiting_words
from maxi_mlx.cli.asking.server import AskedServer, server_options
from maxi_mlx.cli.asking.stream import End, Piece, Text, Thought
from maxi_mlx.cli.completing import complete_writer
from maxi_mlx.cli.terminal import Paint
from maxi_mlx.core.errors import NoAnswer, SetupError

NOTHING_ASKED = 'nothing to ask: maxi-mlx run "What is a prime?", or pipe a text into it'


@click.command()
@click.argument("words", metavar='[MODEL] "PROMPT"', nargs=-1, shell_complete=complete_writer)
@click.option("--system", metavar="TEXT", help="What the model is told before the prompt.")
@click.option("--temperature", type=float, metavar="NUMBER", help="0 for the likeliest words.")
@click.option("--max-tokens", type=int, metavar="N", help="Stop the answer after so many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@server_options
def run(
    *,
    words: tuple[str, ...],
    system: str | None,
    temperature: float | None,
    max_tokens: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Ask MODEL, or the one in use, and print its answer.

    A text that is piped in follows the prompt, or is the prompt.

    \b
    Example: git diff | maxi-mlx run "Write a commit message for this:"
    """
    if len(words) > 2:
        raise SetupError(f"{len(words)} words were given; put the prompt in quotes")
    piped = _piped()
    if not piped and not any(words):
        raise SetupError(NOTHING_ASKED)
    with AskedServer(flags) as server:
        connection = server.connection()
        model, prompt = _understood(words, piped, connection)
        chosen = model or models.usual(connection, server.settings.model)
        body = {
            "model": chosen.id,
            "messages": [*_system(system), {"role": "user", "content": prompt}],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        given = {name: value for name, value in body.items() if value is not None}
        if as_json:
            click.echo(json.dumps(_collected(connection, given)))  # ASCII: inert, and exact
        else:
            _print(connection, given)


def _piped() -> str:
    """What stands on stdin, where that is no terminal; "" for nothing but space."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise SetupError(f"stdin is not text in UTF-8: {error.reason} at {error.start}") from None
    return text if text.strip() else ""


def _understood(
    words: tuple[str, ...], piped: str, connection: Connection
) -> tuple[Writer | None, str]:
    """The model, None for any, and the prompt. A single word is the model, where it names one."""
    if len(words) == 2:
        model: Writer | None = models.named(connection, words[0])
        parts = [words[1], piped]
    else:
        model = _named(words[0], connection) if words else None
        parts = [piped] if model is not None else [*words, piped]
    prompt = "\n\n".join(filter(None, parts))
    if not prompt:
        raise SetupError(f"{NOTHING_ASKED}; for a conversation: maxi-mlx chat {' '.join(words)}")
    return model, prompt


def _named(word: str, connection: Connection) -> Writer | None:
    if len(word.split()) != 1:
        return None
    try:
        return models.named(connection, word)
    except NoAnswer as error:
        if error.code != "model_not_found":
            raise
        return None


def _system(text: str | None) -> list[dict[str, str]]:
    return [] if text is None else [{"role": "system", "content": text}]


def _pieces(connection: Connection, body: Mapping[str, Any]) -> Iterator[Piece]:
    """The answer's; what is waited for is shown until the first."""
    with notice_on(sys.stderr, waiting_words(connection)) as notice:
        yield from _told(connection.ask(body), notice)


def _told(pieces: Iterator[Piece], notice: Notice) -> Iterator[Piece]:
    for piece in pieces:
        notice.close()
        yield piece


def _print(connection: Connection, body: Mapping[str, Any]) -> None:
    paint = Paint.on(sys.stderr)
    shows_thoughts = sys.stderr.isatty()
    is_thinking, ends_line = False, True
    end = None
    try:
        for piece in _pieces(connection, body):
            match piece:
                case Thought(text):
                    if shows_thoughts:
                        click.echo(paint(inert(text), "bright_black"), err=True, nl=False)
                        is_thinking = True
                case Text(text):
                    if is_thinking:
                        click.echo("\n", err=True)
                        is_thinking = False
                    click.echo(inert(text), nl=False)
                    ends_line = text.endswith("\n")
                case End():
                    end = piece
    finally:
        if not ends_line or is_thinking:
            click.echo(err=ends_line)
    if end is not None and end.finish_reason == "length":
        click.echo(f"maxi-mlx: {_cut(end)}", err=True)


def _cut(end: End) -> str:
    num_tokens = end.usage.get("completion_tokens")
    return f"the answer was cut at its limit of {num_tokens} tokens"


def _collected(connection: Connection, body: Mapping[str, Any]) -> dict[str, Any]:
    """The whole answer with its figures. Its texts are as the model wrote them."""
    began_s = time.monotonic()
    texts: list[str] = []
    thoughts: list[str] = []
    first_s = last_s = began_s
    end = End("", "", {})
    for piece in _pieces(connection, body):
        last_s = time.monotonic()
        match piece:
            case Text(text) | Thought(text):
                first_s = first_s if texts or thoughts else last_s
                (texts if isinstance(piece, Text) else thoughts).append(text)
            case End():
                end = piece
    return {
        "model": end.model,
        "text": "".join(texts),
        "reasoning": "".join(thoughts) or None,
        "finish_reason": end.finish_reason,
        "usage": end.usage,
        "timings": {
            "first_token_s": round(first_s - began_s, 3),
            "total_s": round(last_s - began_s, 3),
            "tokens_per_s": _rate(end, last_s - first_s),
        },
    }


def _rate(end: End, decoding_s: float) -> float | None:
    """After the first token, which is the prompt's to wait for."""
    num_later = end.usage.get("completion_tokens", 0) - 1
    return round(num_later / decoding_s, 1) if num_later > 0 and decoding_s > 0 else None
