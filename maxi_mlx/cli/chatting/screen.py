"""What a chat shows. Owns stdout; on a terminal with colours, answers are Markdown."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import click

from maxi_mlx.cli.asking.inert import inert
from maxi_mlx.cli.terminal import Paint
from maxi_mlx.cli.writing.markdown import MarkdownWriter
from maxi_mlx.cli.writing.style import DIM, Span
from maxi_mlx.cli.writing.wrapping import Wrapper

MIN_COLUMNS = 20


class Screen:
    """Thoughts are for people: none in a pipe."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._paint = Paint.on(sys.stdout)

    def note(self, text: str) -> None:
        """For people alone, as a pipe is for answers."""
        if self.is_terminal:
            click.echo(self._paint(inert(text), "bright_black"))

    def complain(self, message: str) -> None:
        paint = Paint.on(sys.stderr)
        click.echo(paint(f"maxi-mlx: {inert(' '.join(message.split()))}", "red"), err=True)

    @contextmanager
    def answer(self) -> Iterator[AnswerWriter]:
        """However the answer ends, what comes next begins on a line of its own."""
        writer: AnswerWriter
        writer = StyledAnswer() if self._paint.is_on else PlainAnswer(self.is_terminal)
        try:
            with _keyboard_is_quiet():
                yield writer
        finally:
            writer.end()


class AnswerWriter(ABC):
    """Writes an answer's pieces; knows where the cursor is."""

    def __init__(self) -> None:
        self._is_thinking = False
        self._is_at_start = True

    def thought(self, text: str) -> None:
        self._is_thinking = True
        self._write(self._thought(inert(text)))

    def text(self, text: str) -> None:
        text = inert(text)
        if self._is_thinking:
            self._end_thought()
        self._write(self._text(text))

    def end(self) -> None:
        if self._is_thinking:
            self._end_thought()
        self._write(self._rest())
        if not self._is_at_start:
            self._write("\n")
        if sys.stdout.isatty():
            self._write("\n")

    def _end_thought(self) -> None:
        self._is_thinking = False
        self._write(self._thought_end())

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._is_at_start = text.endswith("\n")

    @abstractmethod
    def _thought(self, text: str) -> str: ...

    @abstractmethod
    def _thought_end(self) -> str: ...

    @abstractmethod
    def _text(self, text: str) -> str: ...

    @abstractmethod
    def _rest(self) -> str:
        """What was held back."""


class PlainAnswer(AnswerWriter):
    """The text as it is."""

    def __init__(self, shows_thoughts: bool) -> None:
        super().__init__()
        self._shows_thoughts = shows_thoughts

    def _thought(self, text: str) -> str:
        return text if self._shows_thoughts else ""

    def _thought_end(self) -> str:
        return "\n\n" if self._shows_thoughts else ""

    def _text(self, text: str) -> str:
        return text

    def _rest(self) -> str:
        return ""


class StyledAnswer(AnswerWriter):
    def __init__(self) -> None:
        super().__init__()
        self._markdown = MarkdownWriter(_columns)
        self._thoughts = Wrapper(_columns)

    def _thought(self, text: str) -> str:
        first, *others = text.split("\n")
        pieces = [self._thoughts.feed([Span(first, DIM)])]
        for line in others:
            pieces += [self._thoughts.end(), "\n", self._thoughts.begin_line()]
            pieces.append(self._thoughts.feed([Span(line, DIM)]))
        return "".join(pieces)

    def _thought_end(self) -> str:
        return f"{self._thoughts.end()}\n\n"

    def _text(self, text: str) -> str:
        return self._markdown.feed(text)

    def _rest(self) -> str:
        return self._markdown.end()


def _columns() -> int:
    try:
        return max(MIN_COLUMNS, os.get_terminal_size(sys.stdout.fileno()).columns)
    except OSError:
        return 80


@contextmanager
def _keyboard_is_quiet() -> Iterator[None]:
    """What is typed meanwhile waits for the next prompt, and does not stand in the answer."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = before[:]
    quiet[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, quiet)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
