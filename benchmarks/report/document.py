"""Everything that one run of the suite measured, as one value and as a JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from measuring.machine import Machine
from rows.figure import Figure, RowResult
from rows.sizes import Sizes


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """``began_at`` is in UTC. Loads are the machine's load averages over 1, 5 and 15 minutes."""

    began_at: str
    seconds: float
    machine: Machine
    load_at_start: tuple[float, ...]
    load_at_end: tuple[float, ...]
    is_quick: bool
    sizes: dict[str, Sizes]  # by the model's name
    results: Sequence[RowResult]


def write_json(run: Run, path: Path) -> None:
    """With the median and the verdict of each figure, which the values only imply."""
    document: dict[str, Any] = msgspec.to_builtins(run)
    for result, written in zip(run.results, document["results"], strict=True):
        written["figures"] = [_described(figure) for figure in result.figures]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def _described(figure: Figure) -> dict[str, Any]:
    described: dict[str, Any] = msgspec.to_builtins(figure)
    return {**described, "median": figure.median, "is_met": figure.is_met}
