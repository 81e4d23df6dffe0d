"""Breaks lines between words where the terminal would break within one. A machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maxi_mlx.cli.writing.style import RESET, Span, Style

TAB = "    "


class Wrapper:
    """A word is held back until it is over, as only then is it known where it fits. ``width`` is
    asked at each, since a terminal may change."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._column = 0
        self._indent: tuple[Span, ...] = ()
        self._spaces: list[Span] = []
        self._word: list[Span] = []

    def begin_line(self, lead: Iterable[Span] = (), *, indent: Iterable[Span] = ()) -> str:
        """``lead`` stands before the text, ``indent`` before what is broken off of it."""
        self._indent = tuple(indent)
        lead = tuple(lead)
        self._column = width_of(lead)
        return written(lead)

    def feed(self, spans: Iterable[Span]) -> str:
        text = ""
        for span in spans:
            for character in span.text.replace("\t", TAB):
                text += self._take(Span(character, span.style))
        return text

    def end(self) -> str:
        """The last word; spaces at a line's end are dropped."""
        text = self._placed()
        self._spaces.clear()
        return text

    def _take(self, character: Span) -> str:
        if character.text == " ":
            text = self._placed()
            self._spaces.append(character)
            return text
        if _is_wide(character.text):  # of a script without spaces: a line may break anywhere
            text = self._placed()
            self._word.append(character)
            return text + self._placed()
        self._word.append(character)
        return ""

    def _placed(self) -> str:
        if not self._word:
            return ""
        width = width_of(self._word)
        needed = width_of(self._spaces) + width
        if self._column + needed > self._width() and self._column > width_of(self._indent):
            text = "\n" + written(self._indent)
            self._column = width_of(self._indent) + width
        else:
            text = written(self._spaces)
            self._column += needed
        text += written(self._word)
        self._spaces.clear()
        self._word.clear()
        return text


def written(spans: Iterable[Span]) -> str:
    """With each style switched on once for all of its neighbours."""
    text, style = "", Style()
    for span in spans:
        if span.style != style:
            text += (RESET if style.code else "") + span.style.code
            style = span.style
        text += span.text
    return text + (RESET if style.code else "")


def width_of(spans: Iterable[Span]) -> int:
    return sum(columns_of(span.text) for span in spans)


def columns_of(text: str) -> int:
    """How many columns a terminal takes for it."""
    from wcwidth import wcwidth

    return sum(max(0, wcwidth(character)) for character in text)


def _is_wide(character: str) -> bool:
    return not character.isascii() and columns_of(character) == 2
