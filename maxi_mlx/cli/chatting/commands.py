"""What begins with a slash: commands to the chat itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maxi_mlx.cli.asking import models
from maxi_mlx.cli.terminal import columns
from maxi_mlx.core.errors import SetupError

if TYPE_CHECKING:
    from maxi_mlx.cli.chatting.session import Session

KEYS = (
    ("Alt-Enter", 'a new line; so does \\ at a line\'s end, or lines between """'),
    ("Ctrl-C", "stop the answer"),
    ("Ctrl-D", "leave"),
)


class Leave(Exception):
    """The chat is over."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """``words`` names what follows the command, in brackets where it need not."""

    words: str
    help: str
    run: Callable[[Session, str], None]


def command_line(message: str) -> tuple[str, str]:
    """The command's name and what follows it. Raises SetupError for what is none."""
    name, _, words = message.partition(" ")
    words = words.strip()
    command = COMMANDS.get(name)
    if command is None:
        raise SetupError(f"there is no {name}; /help lists what there is")
    if not words and command.words and not command.words.startswith("["):
        raise SetupError(f"{name} needs more: {name} {command.words}")
    return name, words


def _help(_session: Session, _words: str) -> None:
    rows = [(f"{name} {command.words}", command.help) for name, command in COMMANDS.items()]
    for line in columns([*rows, *KEYS]):
        click.echo(f"  {line}")


def _new(session: Session, _: str) -> None:
    session.conversation.clear()
    session.screen.note("a new conversation")


def _model(session: Session, name: str) -> None:
    if name:
        session.choose_model(name)
    session.screen.note(session.model)


def _models(session: Session, _: str) -> None:
    for model in models.writers(session.server.connection()):
        mark = "*" if model.id == session.model else " "
        click.echo(f"{mark} {model.id}{'  (loaded)' if model.is_loaded else ''}")


def _system(session: Session, text: str) -> None:
    if text:
        session.conversation.system = None if text == "none" else text
    session.screen.note(f"system: {session.conversation.system or 'none'}")


def _save(session: Session, name: str) -> None:
    path = Path(os.path.expanduser(name))
    if not session.conversation.turns:
        raise SetupError("nothing was said yet")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(session.conversation.document())
    except FileExistsError:
        raise SetupError(f"{path} is there already; choose another name") from None
    except OSError as error:
        raise SetupError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:  # a null character in the name
        raise SetupError(f"{path}: {error}") from None
    session.screen.note(f"saved to {path}")


def _retry(session: Session, _: str) -> None:
    question = session.conversation.take_back()
    if question is None:
        raise SetupError("nothing was asked yet")
    session.ask(question)


def _exit(_session: Session, _words: str) -> None:
    raise Leave


COMMANDS = {
    "/help": ChatCommand("", "show this", _help),
    "/new": ChatCommand("", "begin a new conversation", _new),
    "/model": ChatCommand("[NAME]", "go on with this model", _model),
    "/models": ChatCommand("", "list the models that chat", _models),
    "/system": ChatCommand("[TEXT]", "what the model is told first; none takes it away", _system),
    "/save": ChatCommand("FILE", "write the conversation to a file, as Markdown", _save),
    "/retry": ChatCommand("", "ask the last question again", _retry),
    "/exit": ChatCommand("", "leave", _exit),
}
