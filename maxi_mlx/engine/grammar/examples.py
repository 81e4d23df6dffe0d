"""A short text that a pattern allows, as a hint for a search.

A guess: the search checks it. What can't be guessed gives no text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from re import _parser  # type: ignore[attr-defined]  # no other parser is at hand
from typing import Any

_MAX_PATTERN = 2000
_MAX_EXAMPLE = 96
_CANDIDATES = "ax0 A-_.,:@/\n!é"


def ends_in_escape(pattern: str) -> bool:
    """Whether its last backslash escapes nothing: llguidance would pass over that in silence."""
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


def example(pattern: str) -> str | None:
    """A shortest match, as far as Python's own notation is the same; None where it isn't."""
    if len(pattern) > _MAX_PATTERN:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = _of_sequence(_parser.parse(pattern))
    except (re.error, _NoExample, RecursionError, OverflowError):
        return None
    return text


class _NoExample(Exception):
    pass


def _of_sequence(items: Any) -> str:
    text = ""
    for operation, argument in items:
        text += _of_item(operation, argument)
        if len(text) > _MAX_EXAMPLE:
            raise _NoExample
    return text


def _of_item(operation: Any, argument: Any) -> str:
    name = str(operation)
    if name == "LITERAL":
        return chr(argument)
    if name in ("AT", "ANY", "NOT_LITERAL"):
        return "" if name == "AT" else ("b" if argument == ord("a") else "a")
    if name == "IN":
        return _of_set(argument)
    if name == "BRANCH":
        return min((_of_sequence(branch) for branch in argument[1]), key=len)
    if name == "SUBPATTERN":
        return _of_sequence(argument[-1])
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        least, _, items = argument
        if least > _MAX_EXAMPLE:
            raise _NoExample
        return _of_sequence(items) * int(least)
    raise _NoExample


def _of_set(items: Sequence[tuple[Any, Any]]) -> str:
    """The first character that we think of and the set has, or the set's own first."""
    is_negated = bool(items) and str(items[0][0]) == "NEGATE"
    for character in _CANDIDATES:
        if _is_in(ord(character), items) != is_negated:
            return character
    if is_negated:
        raise _NoExample
    name, argument = str(items[0][0]), items[0][1]
    if name == "LITERAL":
        return chr(argument)
    if name == "RANGE":
        return chr(argument[0])
    raise _NoExample


def _is_in(code: int, items: Sequence[tuple[Any, Any]]) -> bool:
    character = chr(code)
    for operation, argument in items:
        match str(operation):
            case "LITERAL" if argument == code:
                return True
            case "RANGE" if argument[0] <= code <= argument[1]:
                return True
            case "CATEGORY" if _is_in_category(character, argument):
                return True
    return False


def _is_in_category(character: str, category: Any) -> bool:
    name = str(category).removeprefix("CATEGORY_")
    is_in = {
        "DIGIT": character.isdigit(),
        "SPACE": character.isspace(),
        "WORD": character.isalnum() or character == "_",
    }[name.removeprefix("NOT_")]
    return is_in != name.startswith("NOT_")
