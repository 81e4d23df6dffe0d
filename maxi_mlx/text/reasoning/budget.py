"""Counts a thought's tokens on the way, so that an engine can end a thought that is too long.

Finds tags in the tokens' bytes, since a tag may be cut into tokens in several ways.
"""

from __future__ import annotations


class ThinkingBudget:
    """One answer's allowance of ``num_tokens`` for its thought, the tags included.

    ``begin`` and ``end`` are a thought's tags; room is kept for ``num_end_tokens``. Once
    `is_used_up`, the engine makes the tokens of the format's ``closing`` the next ones, and feeds
    them here as any others. ``is_one``: there is one thought at most, at the answer's start.
    """

    def __init__(
        self,
        num_tokens: int,
        *,
        begin: bytes,
        end: bytes,
        num_end_tokens: int,
        starts_open: bool = False,
        is_one: bool = False,
    ) -> None:
        if not begin or not end:
            raise ValueError("a thought must have tags")
        self._num_left = num_tokens - num_end_tokens
        self._begin = begin
        self._end = end
        self._recent: list[bytes] = []  # tokens that a tag may have begun in
        self.in_thought = starts_open
        self._is_one = is_one
        self._is_over = False

    @property
    def is_used_up(self) -> bool:
        """Whether the thought must end now."""
        return self.in_thought and self._num_left <= 0

    def feed(self, token: bytes) -> bool:
        """Takes the bytes of the next token, a special one's name included; says whether the
        thought must end now."""
        if self._is_over:
            return False
        recent, tag = self._recent, self._end if self.in_thought else self._begin
        recent.append(token)
        num_taken = 1
        if self._has(tag):
            self._is_over = self._is_one and self.in_thought
            self.in_thought = not self.in_thought
            num_taken = self._num_tokens_of(tag)
            recent.clear()
        elif self._is_one and not self.in_thought and not self._begins():
            self._is_over = True
        else:
            while recent and sum(map(len, recent[1:])) >= len(tag) - 1:
                del recent[0]
        if self.in_thought:
            self._num_left -= num_taken
        return self.is_used_up

    def end(self) -> None:
        """The thought was closed, whatever was seen of its tag."""
        self.in_thought = False
        self._is_over = self._is_one
        self._recent.clear()

    def _begins(self) -> bool:
        """Whether the answer may begin with a thought, by what is there of it."""
        text = b"".join(self._recent)
        return text.startswith(self._begin[: len(text)])

    def _has(self, tag: bytes) -> bool:
        return tag in b"".join(self._recent)

    def _num_tokens_of(self, tag: bytes) -> int:
        """The fewest last tokens that the tag is in."""
        text = b""
        for count, token in enumerate(reversed(self._recent), 1):
            text = token + text
            if tag in text:
                return count
        raise AssertionError("the tag was there")
