"""Text that comes in pieces, read by a parser that can wait for more.

A parser is a generator over a `Source`: it yields where it needs text that has not come yet, so it
is written as if the whole text were there, and can't depend on how it was cut. What is read is
consumed at once: only what may begin a tag stays, so that any text takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
Reading = Generator[None, None, T]

SPACE = re.compile(r"[ \t\r\n]*")
_SEEN_SPACE = re.compile(r"[ \t\r\n]{0,200}")


class Source:
    """The unread text. ``is_cut``: it ended because its writer was stopped, not because it was
    done."""

    def __init__(self) -> None:
        self.buffer = ""
        self.at = 0
        self.is_closed = False
        self.is_cut = False
        self._record: list[str] | None = None

    @property
    def num_unread(self) -> int:
        return len(self.buffer) - self.at

    def add(self, text: str) -> None:
        self.buffer = self.buffer[self.at :] + text if self.at < len(self.buffer) else text
        self.at = 0

    def close(self, *, is_cut: bool = False) -> None:
        self.is_closed = True
        self.is_cut = is_cut

    # -- what was read, for a parser that has to give it back ---------------------------------

    def record(self) -> None:
        self._record = []

    def recorded(self) -> str:
        """What was read since `record`; ends the recording."""
        record, self._record = self._record, None
        return "".join(record or ())

    def forget(self) -> None:
        """Ends the recording: nothing will be given back."""
        self._record = None

    # -- reading ------------------------------------------------------------------------------

    def take(self, num_characters: int) -> str:
        """Characters that are known to be there."""
        end = self.at + num_characters
        text = self.buffer[self.at : end]
        self.at = end
        if self._record is not None:
            self._record.append(text)
        return text

    def peek(self, distance: int = 0) -> Reading[str]:
        """The character ``distance`` ahead, or nothing beyond the end."""
        while self.at + distance >= len(self.buffer):
            if self.is_closed:
                return ""
            yield
        return self.buffer[self.at + distance]

    def peek_past_space(self) -> Reading[tuple[str, str]]:
        """White space that comes, and the character behind it (nothing at the end). Only so much
        white space is looked through that a character is never looked at too often."""
        while True:
            match = _SEEN_SPACE.match(self.buffer, self.at)
            assert match is not None
            if match.end() < len(self.buffer):
                return match[0], self.buffer[match.end()]
            if self.is_closed:
                return match[0], ""
            yield

    def looks_at(self, word: str, distance: int = 0) -> Reading[bool]:
        """Whether ``word`` comes, ``distance`` characters ahead."""
        while len(self.buffer) - self.at - distance < len(word):
            if self.is_closed or not word.startswith(self.buffer[self.at + distance :]):
                return False
            yield
        return self.buffer.startswith(word, self.at + distance)

    def expect(self, word: str) -> Reading[bool]:
        """Reads ``word`` if that is what comes."""
        if (yield from self.looks_at(word)):
            self.take(len(word))
            return True
        return False

    def run(self, characters: re.Pattern[str]) -> Reading[str]:
        """The longest run of ``characters``, a pattern such as ``[a-z]*``; it may be nothing."""
        parts: list[str] = []
        yield from self.pass_run(characters, parts.append)
        return "".join(parts)

    def pass_run(
        self, characters: re.Pattern[str], write: Callable[[str], object]
    ) -> Reading[None]:
        """Hands on a run of ``characters`` as it comes."""
        while True:
            match = characters.match(self.buffer, self.at)
            if match is not None and match.end() > self.at:
                write(self.take(match.end() - self.at))
            if self.at < len(self.buffer) or self.is_closed:
                return
            yield

    def pass_until(self, tags: Tags, write: Callable[[str], object]) -> Reading[str]:
        """Hands on text as it comes up to the first of ``tags``, which is read too and returned;
        nothing at the end."""
        while True:
            match = tags.pattern.search(self.buffer, self.at)
            if match is not None and (self.is_closed or not tags.may_go_on(self.buffer, match)):
                if match.start() > self.at:
                    write(self.take(match.start() - self.at))
                return self.take(len(match[0]))
            num_held = 0 if self.is_closed else tags.num_held(self.buffer, self.at)
            if self.num_unread > num_held:
                write(self.take(self.num_unread - num_held))
            if self.is_closed:
                return ""
            yield


class Tags:
    """Words to look for in a source. None may lie inside another, unless at an end of it."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(word for word in words if word))
        longest_first = sorted(self.words, key=len, reverse=True)
        # Nothing to look for: a pattern that never matches.
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._beginnings = frozenset(word[:i] for word in self.words for i in range(1, len(word)))
        self._longest = max(map(len, self._beginnings), default=0)

    def may_go_on(self, text: str, match: re.Match[str]) -> bool:
        """Whether a tag that was found may turn out to be the beginning of a longer one."""
        num_left = len(text) - match.start()
        return num_left <= self._longest and text[match.start() :] in self._beginnings

    def num_held(self, text: str, at: int) -> int:
        """How many characters at the end of ``text[at:]`` may be the beginning of a tag."""
        for length in range(min(self._longest, len(text) - at), 0, -1):
            if text[len(text) - length :] in self._beginnings:
                return length
        return 0


class Driver:
    """Runs one parser over one source, as its text comes."""

    def __init__(self, source: Source, parser: Reading[None]) -> None:
        self._source = source
        self._parser = parser
        self.is_done = False

    def feed(self, text: str) -> None:
        self._source.add(text)
        self._resume()

    def finish(self, *, is_cut: bool = False) -> None:
        self._source.close(is_cut=is_cut)
        self._resume()

    def _resume(self) -> None:
        if self.is_done:
            return
        try:
            next(self._parser)
        except StopIteration:
            self.is_done = True
