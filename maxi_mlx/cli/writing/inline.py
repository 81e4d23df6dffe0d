"""What is marked within a line of Markdown: code, emphasis, links. A machine.

Marked text is held back until its closing mark has come, so that a mark without one stays what it
is: ``2 * 3``, ``**kwargs``, ``snake_case``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from maxi_mlx.cli.writing.style import PLAIN, Span, Style

MAX_HELD = 400  # characters; what takes longer to close is no mark
_PLAIN_TEXT = re.compile(r"[^`*_~\\\[!]+")
_ESCAPED = frozenset("\\`*_~#|<>-+.!")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r'!?\[([^\[\]]*)\]\(\s*([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+"[^"]*")?\s*\)')
_EMPHASIS = {"*": {"is_italic": True}, "_": {"is_italic": True}, "**": {"is_bold": True}}
_EMPHASIS["__"] = _EMPHASIS["**"]
_EMPHASIS["***"] = _EMPHASIS["___"] = {"is_bold": True, "is_italic": True}
_EMPHASIS["~~"] = {"is_struck": True}


class NeedsMore(Exception):
    """What stands here depends on text that has not come."""


class InlineReader:
    """Reads one line. All of a line gives the same, however it is cut."""

    def __init__(self, style: Style = PLAIN, *, before: str = "") -> None:
        self._style = style
        self._before = before  # the last character read
        self._held = ""

    def feed(self, text: str) -> Iterator[Span]:
        self._held += text
        return self._read(is_whole=False)

    def end(self) -> Iterator[Span]:
        return self._read(is_whole=True)

    def _read(self, *, is_whole: bool) -> Iterator[Span]:
        while self._held:
            window = self._held[:MAX_HELD]
            is_final = is_whole or len(self._held) >= MAX_HELD
            try:
                length, spans = self._next(window, is_final=is_final)
            except NeedsMore:
                return
            self._before = self._held[length - 1]
            self._held = self._held[length:]
            yield from spans

    def _next(self, text: str, *, is_final: bool) -> tuple[int, list[Span]]:
        """What stands at the beginning: its length, and how it looks."""
        plain = _PLAIN_TEXT.match(text)
        if plain:
            return plain.end(), [Span(plain[0], self._style)]
        match text[0]:
            case "`":
                return self._code(text, is_final=is_final)
            case "\\":
                return self._escape(text, is_final=is_final)
            case "[" | "!":
                return self._link(text, is_final=is_final)
            case _:
                return self._emphasis(text, is_final=is_final)

    def _code(self, text: str, *, is_final: bool) -> tuple[int, list[Span]]:
        found = _CODE.match(text)
        # A mark at the very end may be the beginning of a longer one.
        if not is_final and (found is None or found.end() == len(text)):
            raise NeedsMore
        if found is None:
            return self._literal(_run(text, 0), text)
        content = found[2]
        if content.strip() and content[0] == content[-1] == " ":
            content = content[1:-1]
        return found.end(), [Span(content, self._style.but(is_code=True))]

    def _escape(self, text: str, *, is_final: bool) -> tuple[int, list[Span]]:
        if len(text) < 2 and not is_final:
            raise NeedsMore
        if text[1:2] in _ESCAPED and len(text) > 1:
            return 2, [Span(text[1], self._style)]
        return self._literal(1, text)

    def _link(self, text: str, *, is_final: bool) -> tuple[int, list[Span]]:
        found = _LINK.match(text)
        if found is None:
            if not is_final and _may_be_link(text):
                raise NeedsMore
            return self._literal(1, text)
        label, address = found[1] or found[2], found[2]
        spans = list(read_line(label, self._style.but(is_underlined=True)))
        if address != label:
            spans.append(Span(f" ({address})", self._style.but(is_dim=True)))
        return found.end(), spans

    def _emphasis(self, text: str, *, is_final: bool) -> tuple[int, list[Span]]:
        length = _run(text, 0)
        if length == len(text) and not is_final:
            raise NeedsMore
        mark = text[:length]
        if mark not in _EMPHASIS or not self._opens(text, length):
            return self._literal(length, text)
        end = _closing(text, mark, is_final=is_final)
        if end is None:
            return self._literal(length, text)
        style = self._style.but(**_EMPHASIS[mark])
        return end + length, list(read_line(text[length:end], style, before=mark))

    def _opens(self, text: str, length: int) -> bool:
        is_in_word = self._before.isascii() and self._before.isalnum()
        return not is_in_word and not text[length : length + 1].isspace() and length < len(text)

    def _literal(self, length: int, text: str) -> tuple[int, list[Span]]:
        return length, [Span(text[:length], self._style)]


def read_line(text: str, style: Style = PLAIN, *, before: str = "") -> Iterator[Span]:
    """A text that is all there."""
    reader = InlineReader(style, before=before)
    yield from reader.feed(text)
    yield from reader.end()


def _run(text: str, start: int) -> int:
    """How often the character at ``start`` stands there in a row."""
    mark = text[start]
    end = start
    while end < len(text) and text[end] == mark:
        end += 1
    return end - start


def _may_be_link(text: str) -> bool:
    opened = text.removeprefix("!")
    if not opened.startswith("["):
        return not opened
    label, closed, rest = opened[1:].partition("]")
    if "[" in label:
        return False
    return not closed or not rest or (rest.startswith("(") and "\n" not in rest)


def _closing(text: str, mark: str, *, is_final: bool) -> int | None:
    """Where ``mark`` closes what it opens at the beginning; None for nowhere."""
    place = len(mark)
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 2
        elif character == "`":
            code = _CODE.match(text, place)
            if not is_final and (code is None or code.end() == len(text)):
                raise NeedsMore
            place = code.end() if code is not None else place + _run(text, place)
        elif character == mark[0]:
            length = _run(text, place)
            end = place + length
            if end == len(text) and not is_final:
                raise NeedsMore
            is_in_word = character == "_" and text[end : end + 1].isalnum()
            if length == len(mark) and not text[place - 1].isspace() and not is_in_word:
                return place
            place = end
        else:
            place += 1
    if not is_final:
        raise NeedsMore
    return None
