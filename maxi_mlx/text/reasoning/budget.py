"""Counts a thought's tokens on the way, so that an engine can end a thought that is too long.

Works on token ids, not text, since the engine has to know before the next step.
"""

from __future__ import annotations

from collections.abc import Sequence


class ThinkingBudget:
    """One answer's allowance of ``num_tokens`` for its thought, the tags included.

    ``begin`` and ``end`` are a thought's tags as token ids; room for ``end`` is kept. Once
    `is_used_up`, the engine makes the tokens of the format's ``closing`` the next ones, and feeds
    them here as any others.
    """

    def __init__(
        self,
        num_tokens: int,
        *,
        begin: Sequence[int],
        end: Sequence[int],
        starts_open: bool = False,
    ) -> None:
        if not begin or not end:
            raise ValueError("a thought's tags must have tokens")
        self._num_left = num_tokens - len(end)
        self._begin = tuple(begin)
        self._end = tuple(end)
        self._recent: list[int] = []
        self.in_thought = starts_open

    @property
    def is_used_up(self) -> bool:
        """Whether the thought must end now."""
        return self.in_thought and self._num_left <= 0

    def feed(self, token_id: int) -> bool:
        """Takes the next token; says whether the thought must end now."""
        recent = self._recent
        recent.append(token_id)
        tag = self._end if self.in_thought else self._begin
        if len(recent) > max(len(self._begin), len(self._end)):
            del recent[0]
        if tuple(recent[-len(tag) :]) == tag:
            self.in_thought = not self.in_thought
            recent.clear()
        if self.in_thought:
            self._num_left -= 1 if recent else len(self._begin)
        return self.is_used_up
