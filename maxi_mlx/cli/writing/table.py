"""A Markdown table, all of its lines together, as columns. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from maxi_mlx.cli.writing.inline import read_line
from maxi_mlx.cli.writing.style import DIM, PLAIN, Span, Style
from maxi_mlx.cli.writing.wrapping import width_of, written

_RULE = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_BORDER = re.compile(r"(?<!\\)\|")

Cells = list[list[Span]]


def table_text(lines: Sequence[str], *, width: int) -> str | None:
    """None where the lines are no table, or one that is too wide for the terminal."""
    if len(lines) < 2 or not _RULE.fullmatch(lines[1]):
        return None
    rows = [_cells(lines[0], PLAIN.but(is_bold=True))]
    rows += [_cells(line, PLAIN) for line in lines[2:]]
    num_columns = max(map(len, rows))
    for row in rows:
        row += [[] for _ in range(num_columns - len(row))]
    widths = [max(width_of(cell) for cell in column) for column in zip(*rows, strict=True)]
    if sum(widths) + 3 * (num_columns - 1) > width:
        return None
    heads, *others = [_line(row, widths) for row in rows]
    rule = written([Span("─┼─".join("─" * each for each in widths), DIM)])
    return "".join(f"{line}\n" for line in (heads, rule, *others))


def _cells(line: str, style: Style) -> Cells:
    inner = line.strip().removeprefix("|")
    inner = re.sub(r"(?<!\\)\|$", "", inner)
    return [list(read_line(cell.strip(), style)) for cell in _BORDER.split(inner)]


def _line(row: Cells, widths: Sequence[int]) -> str:
    spans: list[Span] = []
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        if number:
            spans.append(Span(" │ ", DIM))
        spans += cell
        spans.append(Span(" " * (width - width_of(cell)), PLAIN))
    return written(spans).rstrip()
