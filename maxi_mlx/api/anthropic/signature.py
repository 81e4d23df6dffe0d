"""The signature of a thought: a string that clients keep and send back with the thought.

Nothing is proved by it here. Where a client wants thoughts hidden it carries the thought itself,
so that the next turn's prompt has it all the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

_SHOWN = "shown."
_HIDDEN = "hidden."


class Thought:
    """One thought in the making."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._digest = hashlib.sha256()
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        if self._is_shown:
            self._digest.update(text.encode())
        else:
            self._pieces.append(text)

    @property
    def signature(self) -> str:
        if self._is_shown:
            return _SHOWN + self._digest.hexdigest()
        return _HIDDEN + base64.b64encode("".join(self._pieces).encode()).decode()


def hidden_thought(signature: str) -> str | None:
    """The thought that a signature of ours carries; None where it carries none."""
    if not signature.startswith(_HIDDEN):
        return None
    try:
        return base64.b64decode(signature.removeprefix(_HIDDEN), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
