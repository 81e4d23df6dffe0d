"""How long a model stays in memory once nobody uses it, in every spelling that owners and clients
have for it: seconds, ``10s``, ``5m``, ``1h30m``, 0 for not at all, anything negative for ever."""

from __future__ import annotations

import math
import re

FOREVER = math.inf

_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
# Longer than any server runs; a clock can't be set to it.
_LONGEST_S = 100 * 365 * 86400.0


def parse_keep_alive(value: object) -> float:
    """Seconds, `FOREVER` for ever. Raises ValueError for what is no such time."""
    if isinstance(value, str):
        seconds = _of_words(value.strip().lower())
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    else:
        seconds = float(value)
    if math.isnan(seconds):
        raise ValueError
    return FOREVER if seconds < 0 or seconds > _LONGEST_S else seconds


def _of_words(words: str) -> float:
    if _NUMBER.fullmatch(words):
        return float(words)
    sign = -1.0 if words.startswith("-") else 1.0
    words = words.removeprefix("-").removeprefix("+")
    parts = _PART.findall(words)
    if not parts or "".join(number + unit for number, unit in parts) != words:
        raise ValueError
    return sign * sum(float(number) * _UNITS_S[unit] for number, unit in parts)
