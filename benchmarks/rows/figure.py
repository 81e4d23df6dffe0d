"""What a row of the table comes to: figures with targets. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from measuring.figures import percentile


class Target(msgspec.Struct, frozen=True):
    """A bound for the median."""

    sense: Literal["≥", "≤"]
    bound: float

    def is_met_by(self, value: float) -> bool:
        return value >= self.bound if self.sense == "≥" else value <= self.bound

    def __str__(self) -> str:
        return f"{self.sense} {self.bound:g}"


def at_least(bound: float) -> Target:
    return Target("≥", bound)


def at_most(bound: float) -> Target:
    return Target("≤", bound)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the runs. ``target`` is None where it is there for comparison alone;
    ``detail`` says what it was made from."""

    what: str
    target: Target | None
    unit: str = ""
    runs: Sequence[float]
    detail: str = ""

    @property
    def median(self) -> float:
        return median(self.runs)

    @property
    def is_met(self) -> bool | None:
        return None if self.target is None else self.target.is_met_by(self.median)


class RowResult(msgspec.Struct, frozen=True, kw_only=True):
    """``raw`` is what the figures were made from, for the JSON file and the plots. With a
    ``fault`` there are none."""

    row: str
    model: str
    strategy: str
    figures: Sequence[Figure] = ()
    raw: Mapping[str, Any] = {}
    fault: str | None = None


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def quotients(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Run by run: what slows the machine slows both."""
    return [a / b for a, b in zip(mine, theirs, strict=True)]
