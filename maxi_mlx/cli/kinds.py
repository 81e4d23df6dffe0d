"""What values a setting takes: from words on the command line, or typed in a TOML file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maxi_mlx.core.keep_alive import parse_keep_alive


@dataclass(frozen=True, slots=True)
class Kind:
    """``allowed`` ends the sentence "… is not"; ``check`` gives the value or raises ValueError."""

    allowed: str
    check: Callable[[object], Any]
    from_words: Callable[[str], object] = str
    is_path: bool = False


def whole(low: int, high: int | None = None) -> Kind:
    def check(value: object) -> int:
        if type(value) is not int or value < low or (high is not None and value > high):
            raise ValueError
        return value

    above = f"of {low} or more" if high is None else f"from {low} to {high}"
    return Kind(f"a whole number {above}", check, int)


def number(allowed: str, accepts: Callable[[float], bool]) -> Kind:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        if not math.isfinite(value) or not accepts(value):
            raise ValueError
        return float(value)

    return Kind(f"a number {allowed}", check, float)


def one_of(words: tuple[str, ...]) -> Kind:
    def check(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return Kind("one of " + ", ".join(words), check)


def one_of_numbers(numbers: tuple[int, ...]) -> Kind:
    def check(value: object) -> int:
        if type(value) is not int or value not in numbers:
            raise ValueError
        return value

    return Kind("one of " + ", ".join(map(str, numbers)), check, int)


def words(allowed: str) -> Kind:
    return Kind(allowed, _text)


def switch() -> Kind:
    def check(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    def from_words(word: str) -> object:
        return {"true": True, "1": True, "false": False, "0": False}.get(word.strip().lower())

    return Kind("true or false", check, from_words)


def path(allowed: str) -> Kind:
    def check(value: object) -> Path:
        try:
            return Path(_text(value)).expanduser()
        except RuntimeError:  # ~name of a user that isn't there
            raise ValueError from None

    return Kind(allowed, check, is_path=True)


def size(*, at_least: int = 1) -> Kind:
    """A size as memory is counted: 1 MB is 1024 times 1024 bytes."""

    def check(value: object) -> int:
        if isinstance(value, str):
            found = re.fullmatch(r"(\d+)\s*(?:([kmg])(?:i?b)?|b)?", value.strip().lower())
            if found is None:
                raise ValueError
            value = int(found[1]) * 1024 ** " kmg".index(found[2] or " ")
        if type(value) is not int or value < at_least:
            raise ValueError
        return value

    return Kind("a size such as 256MB or a number of bytes", check)


def keep_alive() -> Kind:
    return Kind(
        "a time such as 5m, 1h or a number of seconds, 0 for none or -1 for ever", parse_keep_alive
    )


def origin() -> Kind:
    """What a browser puts into its Origin header, or ``*``."""

    def check(value: object) -> str:
        text = _text(value).rstrip("/")
        parts = urlsplit(text)
        is_origin = bool(parts.scheme and parts.netloc) and text.count("/") == 2
        if text not in ("*", "null") and not is_origin:
            raise ValueError
        return text.lower()

    return Kind("'*' or an origin such as http://localhost:3000", check)


def api_key() -> Kind:
    def check(value: object) -> str:
        text = _text(value)
        # Anything else can't be sent in an HTTP header.
        if not re.fullmatch(r"[!-~]+", text):
            raise ValueError
        return text

    return Kind("a key of printable ASCII without spaces", check)


def is_address(text: str) -> bool:
    """Whether HTTP can be spoken with it."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for what can be none
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value
