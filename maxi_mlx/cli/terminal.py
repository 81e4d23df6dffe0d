"""How output for people looks: colours where there is a terminal, columns, sizes in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

import click

from maxi_mlx.core.errors import SetupError


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours text, or leaves it as it is."""

    is_on: bool

    @classmethod
    def on(cls, stream: TextIO) -> Paint:
        """Colours only on a terminal, and never where NO_COLOR is set (to anything)."""
        is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        return cls(stream.isatty() and not is_plain)

    def __call__(self, text: str, colour: str | None = None, *, bold: bool = False) -> str:
        return click.style(text, fg=colour, bold=bold or None) if self.is_on else text


def ask(question: str, *, unasked: str) -> None:
    """Raises Abort for a no, and SetupError, saying what to do, where nobody can be asked."""
    if not sys.stdin.isatty():
        raise SetupError(f"nobody can be asked here; {unasked}")
    click.confirm(question, abort=True)


def size_text(num_bytes: int) -> str:
    """As disks and downloads are counted: 1 MB is a million bytes."""
    amount = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines in which the cells of each column begin at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
