"""What a person types: lines with history and editing at a terminal, plain lines from a pipe.

A message of several lines stands between lines of quotes (three double ones), or has a backslash
at the end of each line but the last.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from maxi_mlx.core.errors import SetupError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

QUOTES = '"""'
PROMPT, NEXT_LINE, WRAPPED = "> ", "… ", "  "

Choices = Callable[[str], Sequence[str]]  # for the text before the cursor


class Source(Protocol):
    def read(self) -> str | None:
        """The next message; None where there will be none. Raises KeyboardInterrupt."""


def goes_on(text: str) -> bool:
    """Whether the message isn't over with this line."""
    stripped = text.strip()
    if stripped.startswith(QUOTES):
        return len(stripped) < 2 * len(QUOTES) or not stripped.endswith(QUOTES)
    return text.endswith("\\")


def message_of(text: str) -> str:
    """Without what only said that it goes on."""
    stripped = text.strip()
    if stripped.startswith(QUOTES):
        return stripped.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")
    return text.replace("\\\n", "\n").strip()


class PipedLines:
    def __init__(self) -> None:
        self._lines: Iterator[str] = iter(sys.stdin)

    def read(self) -> str | None:
        text = ""
        try:
            for line in self._lines:
                text += line.rstrip("\n")
                if not goes_on(text):
                    return message_of(text)
                text += "\n"
        except UnicodeDecodeError as error:
            raise SetupError(f"stdin is not text in UTF-8: {error.reason}") from None
        return message_of(text) or None


class TypedLines:
    """Keeps what was typed in ``history``, for the next time; only this user may read it."""

    def __init__(self, history: Path, choices: Choices) -> None:
        self._session = _session(history, choices)

    def read(self) -> str | None:
        try:
            return message_of(self._session.prompt(PROMPT))
        except EOFError:
            return None


def _session(history: Path, choices: Choices) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.shortcuts import CompleteStyle

    return PromptSession(
        multiline=True,
        prompt_continuation=lambda _width, _line, num_wraps: WRAPPED if num_wraps else NEXT_LINE,
        key_bindings=_keys(),
        history=_history(history),
        completer=_completer(choices),
        complete_while_typing=False,
        # A menu would need room, for which the screen would be scrolled at every prompt.
        complete_style=CompleteStyle.READLINE_LIKE,
        reserve_space_for_menu=0,
        enable_suspend=True,
    )


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if goes_on(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")  # as it comes where it was typed before there was a prompt
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _history(path: Path) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError:  # a home that can't be written to is no reason not to chat
        return InMemoryHistory()
    return FileHistory(str(path))


def _completer(choices: Choices) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class ByChoices(Completer):
        def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
            begun = document.text_before_cursor
            word = begun.rpartition(" ")[2]
            for choice in choices(begun):
                yield Completion(choice, start_position=-len(word))

    return ByChoices()
