"""Text of a model's made harmless for a terminal: no character of it can be part of a command.

A terminal takes control characters as commands: to move, to answer with what somebody then
runs, to set titles. Direction marks are no commands, but make a line read as what it isn't.
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"
_CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]
_DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SURROGATES = range(0xD800, 0xE000)  # no text, and can't be written
_TABLE: dict[int, str | None] = dict.fromkeys((*_CONTROLS, *_DIRECTIONS, *_SURROGATES), REPLACEMENT)
del _TABLE[ord("\n")], _TABLE[ord("\t")]
_TABLE[ord("\r")] = None  # of Windows' line ends


def inert(text: str) -> str:
    """By the character, so that cuts make no difference."""
    return text.translate(_TABLE)
