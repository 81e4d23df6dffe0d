"""Finds stop strings in text that comes in pieces, and holds back what might be the start of one.

Works on characters, not tokens, so the result does not depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Sequence


def _failure_table(pattern: str) -> list[int]:
    """For each prefix length, the longest shorter prefix that is also its suffix (Knuth, Morris
    and Pratt 1977), so that a mismatch never looks at a character twice."""
    table = [0] * (len(pattern) + 1)
    length = 0
    for i in range(1, len(pattern)):
        while length and pattern[i] != pattern[length]:
            length = table[length]
        if pattern[i] == pattern[length]:
            length += 1
        table[i + 1] = length
    return table


class StopStrings:
    """The stop strings of one request, prepared once and shared by its answers."""

    def __init__(self, strings: Sequence[str]) -> None:
        if "" in strings:
            raise ValueError("a stop string must not be empty")
        self.strings = tuple(strings)
        self.tables = tuple(_failure_table(string) for string in self.strings)

    def matcher(self) -> StopMatcher:
        return StopMatcher(self)


class StopMatcher:
    """One answer's search. After a match it takes no more text.

    Of several stop strings the one completed first ends the text; where two are completed by the
    same character, the longer one, since it starts earlier.
    """

    def __init__(self, stops: StopStrings) -> None:
        self._stops = stops
        self._lengths = [0] * len(stops.strings)  # characters matched so far, of each
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Takes more text and returns what can be shown now."""
        if not self._stops.strings:
            return text
        if self.matched is not None:
            raise ValueError("text after a stop string")
        for position, character in enumerate(text):
            if self._advance(character):
                shown = self._held + text[: position + 1]
                self._held = ""
                assert self.matched is not None
                return shown[: len(shown) - len(self.matched)]
        pending = self._held + text
        num_held = max(self._lengths)
        self._held = pending[len(pending) - num_held :]
        return pending[: len(pending) - num_held]

    def flush(self) -> str:
        """The text has ended: what was held back was no stop string."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> bool:
        for i, (string, table) in enumerate(
            zip(self._stops.strings, self._stops.tables, strict=True)
        ):
            length = self._lengths[i]
            while length and string[length] != character:
                length = table[length]
            if string[length] == character:
                length += 1
            self._lengths[i] = length
            if length == len(string) and (self.matched is None or len(string) > len(self.matched)):
                self.matched = string
        return self.matched is not None
