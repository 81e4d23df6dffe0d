"""Markdown to a terminal's text, as it comes. A machine: however the text is cut, what it gives is
the same in the end.

A line is held back until its first characters tell what it is, a table until it is over. Lines of
code go out as they are, so that they can be copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from maxi_mlx.cli.writing.inline import InlineReader, read_line
from maxi_mlx.cli.writing.style import DIM, PLAIN, RESET, Span, Style
from maxi_mlx.cli.writing.table import table_text
from maxi_mlx.cli.writing.wrapping import Wrapper, width_of, written

RULE_COLUMNS = 40
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_FENCE_BEGUN = re.compile(r"\s*(`{1,2}|~{1,2}|```.*|~~~.*)?")
_HEADING = re.compile(r"(#{1,6})\s+")
_BULLET = re.compile(r"(\s*)[-*+]\s+(?=\S)")
_NUMBER = re.compile(r"(\s*\d{1,9}[.)])\s+(?=\S)")
_QUOTE = re.compile(r"\s{0,3}((?:>\s?)+)(?=[^\s>])")
_RULE = re.compile(r"\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})")
_TABLE = re.compile(r"\s*\|")
# What may still become any of them.
_UNDECIDED = re.compile(r"#{1,6}\s*|\s*\d{1,9}[.)]?\s*|[\s>]*|\s*([-*+_])(\s|\1)*")
_CODE = PLAIN.but(is_code=True)


@dataclass(frozen=True, slots=True)
class _Opening:
    """How a line of text begins: ``length`` characters of it are told by ``lead``."""

    length: int = 0
    lead: tuple[Span, ...] = ()
    indent: tuple[Span, ...] = ()
    style: Style = PLAIN


class MarkdownWriter:
    """For one answer. Its text has to be inert already."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._wrapper = Wrapper(width)
        self._held = ""  # a line of which it isn't known yet what it is
        self._inline: InlineReader | None = None  # in a line of text
        self._fence: str | None = None  # in a block of code
        self._is_in_code_line = False
        self._table: list[str] = []

    def feed(self, text: str) -> str:
        first, *others = text.split("\n")
        pieces = [self._part(first)]
        for line in others:
            pieces += [self._line_end(), self._part(line)]
        return "".join(pieces)

    def end(self) -> str:
        """What was held back; the last line has no end, as the text had none."""
        if self._is_in_code_line:
            self._is_in_code_line = False
            return RESET
        text = self._held and self._whole_line()
        self._held = ""
        return text + self._text_end() + self._table_end()

    def _part(self, text: str) -> str:
        """More of a line."""
        if not text:
            return ""
        if self._is_in_code_line:
            return text
        if self._inline is not None:
            return self._wrapper.feed(self._inline.feed(text))
        self._held += text
        if self._fence is not None:
            return "" if self._may_close() else self._code_line()
        if _is_undecided(self._held):
            return ""
        return self._begin_text()

    def _line_end(self) -> str:
        if self._is_in_code_line:
            self._is_in_code_line = False
            return f"{RESET}\n"
        if self._inline is not None:
            return f"{self._text_end()}\n"
        text = self._whole_line()
        self._held = ""
        return text + (f"{self._text_end()}\n" if self._inline is not None else "")

    def _whole_line(self) -> str:
        """A line that was held back to its end, or is empty."""
        line = self._held
        if self._fence is not None:
            return self._line_in_code(line)
        if _TABLE.match(line):
            self._table.append(line)
            return ""
        before = self._table_end()
        fence = _FENCE.fullmatch(line)
        if fence and "`" not in fence[2]:
            self._fence = fence[1]
            return f"{before}{written([Span(line.strip(), DIM)])}\n"
        if _RULE.fullmatch(line):
            columns = min(RULE_COLUMNS, self._width())
            return f"{before}{written([Span('─' * columns, DIM)])}\n"
        if not line.strip():
            return f"{before}\n"
        return before + self._begin_text()

    def _line_in_code(self, line: str) -> str:
        if self._closes(line):
            self._fence = None
            return f"{written([Span(line.strip(), DIM)])}\n"
        return f"{written([Span(line, _CODE)])}\n" if line else "\n"

    def _closes(self, line: str) -> bool:
        mark = line.strip()
        fence = self._fence or ""
        return len(mark) >= len(fence) and set(mark) == {fence[0]}

    def _may_close(self) -> bool:
        return set(self._held.strip()) <= {(self._fence or " ")[0]}

    def _code_line(self) -> str:
        text, self._held = self._held, ""
        self._is_in_code_line = True
        return f"{_CODE.code}{text}"

    def _begin_text(self) -> str:
        opening = _opening(self._held)
        rest, self._held = self._held[opening.length :], ""
        before = self._table_end()
        lead = self._wrapper.begin_line(opening.lead, indent=opening.indent)
        self._inline = InlineReader(opening.style)
        return before + lead + self._wrapper.feed(self._inline.feed(rest))

    def _text_end(self) -> str:
        if self._inline is None:
            return ""
        text = self._wrapper.feed(self._inline.end()) + self._wrapper.end()
        self._inline = None
        return text

    def _table_end(self) -> str:
        lines, self._table = self._table, []
        if not lines:
            return ""
        return table_text(lines, width=self._width()) or "".join(self._plain_lines(lines))

    def _plain_lines(self, lines: list[str]) -> Iterator[str]:
        for line in lines:
            begin = self._wrapper.begin_line()
            yield begin + self._wrapper.feed(read_line(line)) + self._wrapper.end() + "\n"


def _is_undecided(line: str) -> bool:
    return bool(_UNDECIDED.fullmatch(line) or _FENCE_BEGUN.fullmatch(line) or _TABLE.match(line))


def _opening(line: str) -> _Opening:
    if found := _HEADING.match(line):
        return _Opening(found.end(), style=PLAIN.but(is_bold=True))
    if found := _BULLET.match(line):
        lead = Span(f"{found[1]}• ", PLAIN)
        return _Opening(found.end(), (lead,), (_blank((lead,)),))
    if found := _NUMBER.match(line):
        lead = Span(f"{found[1]} ", PLAIN)
        return _Opening(found.end(), (lead,), (_blank((lead,)),))
    if found := _QUOTE.match(line):
        bar = (Span("│ " * found[1].count(">"), DIM),)
        return _Opening(found.end(), bar, bar, PLAIN.but(is_italic=True))
    return _Opening()


def _blank(lead: tuple[Span, ...]) -> Span:
    return Span(" " * width_of(lead), PLAIN)
