"""What an answer's next token may be: its grammar, and the end of a thought that takes too long.

    draw ─► commit ─► the token that stands          may come next ─► masks ─► the next draw

Lives on the device thread with its row. Host memory alone: a guide outlasts its row's batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.grammar.compiler import CompiledGrammar
from maxi_mlx.engine.grammar.masks import MaskWriter
from maxi_mlx.engine.grammar.matcher import Matcher
from maxi_mlx.text.reasoning.budget import ThinkingBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtLimit:
    """So many tokens; a thought's tags, and the tokens of its proper end. ``is_one``: only at the
    answer's start is a tag one. ``data`` gives a token's bytes."""

    num_tokens: int
    begin: bytes
    end: bytes
    num_end_tokens: int
    closing: tuple[int, ...]
    starts_open: bool
    is_one: bool
    data: Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideSpec:
    """What all answers of a request share. ``ends_freely``: the grammar ends in free text, which is
    never whole: one that has to end was cut."""

    grammar: CompiledGrammar | None = None
    ends_freely: bool = False
    thought_limit: ThoughtLimit | None = None

    def start(self, *, max_tokens: int) -> Guide:
        return Guide(self, max_tokens=max_tokens)


class Guide:
    """One answer's. ``num_left`` is always how many tokens may still be drawn."""

    def __init__(self, spec: GuideSpec, *, max_tokens: int) -> None:
        self._spec = spec
        self._max_tokens = max_tokens
        self.matcher: Matcher | None = None
        if spec.grammar is not None:
            self.matcher = Matcher(spec.grammar, max_tokens=max_tokens)
        self._budget: ThinkingBudget | None = None
        limit = spec.thought_limit
        if limit is not None:
            self._budget = ThinkingBudget(
                limit.num_tokens,
                begin=limit.begin,
                end=limit.end,
                num_end_tokens=limit.num_end_tokens,
                starts_open=limit.starts_open,
                is_one=limit.is_one,
            )
        self._closing: deque[int] = deque()  # of a thought whose budget is used up
        self._was_cut = False
        self._close_if_used_up()

    @property
    def is_complete(self) -> bool:
        """Whether nothing but an end can come."""
        return self.matcher is not None and self.matcher.is_complete

    @property
    def is_whole(self) -> bool:
        """Whether the answer may end here, and all of its grammar is there."""
        has_all = self.matcher is not None and self.matcher.is_accepting
        return has_all and not self._spec.ends_freely

    @property
    def may_replace(self) -> bool:
        """Whether the next token may turn out to be another than the one drawn, so that the model
        must not be run on it before."""
        return self.matcher is not None and self.matcher.may_replace

    @property
    def was_cut(self) -> bool:
        """Whether the last token is an end that was put in the place of one that goes on: of free
        text, which might have gone on, where the budget had no room for it."""
        return self._was_cut

    @property
    def forced(self) -> int | None:
        """The next token, where a thought is being closed."""
        return self._closing[0] if self._closing else None

    def commit(self, drawn: int, *, num_left: int) -> int:
        """Goes on by the drawn token, or by the one that it returns."""
        token_id = drawn
        if self.matcher is not None:
            token_id = self.matcher.commit(drawn, num_left=num_left)
            is_end = token_id == self.matcher.tokenizer.end_id
            self._was_cut = self._spec.ends_freely and is_end and token_id != drawn
        self._count(token_id)
        return token_id

    def replayed(self, token_ids: Sequence[int]) -> Guide:
        """A new one that has taken these tokens, for a row that is read anew."""
        guide = self._spec.start(max_tokens=self._max_tokens)
        if guide.matcher is not None:
            guide.matcher.replay(token_ids)
        for token_id in token_ids:
            guide._count(token_id)
        return guide

    def _count(self, token_id: int) -> None:
        limit, budget = self._spec.thought_limit, self._budget
        if limit is None or budget is None:
            return
        budget.feed(limit.data(token_id))
        if self._closing:
            if self._closing.popleft() != token_id:
                self._closing.clear()  # the grammar had a close of its own
            elif not self._closing:
                budget.end()
        self._close_if_used_up()

    def _close_if_used_up(self) -> None:
        limit, budget = self._spec.thought_limit, self._budget
        if limit is not None and budget is not None and budget.is_used_up and not self._closing:
            self._closing.extend(limit.closing)


@dataclass(frozen=True, slots=True)
class Masks:
    """Of some rows of a batch: row ``places[i]`` may have the tokens whose bits are set in
    ``words[i]``, of ``(R, ceil(V / 32))``."""

    places: list[int]
    words: NDArray[np.uint32]


def write_masks(
    guides: Sequence[tuple[int, Guide, int]], writer: MaskWriter, *, vocabulary_size: int
) -> Masks | None:
    """``guides``: a row's place, its guide, and how many tokens it may draw yet. Rows that are free
    for now have no mask; None where all are."""
    num_words = -(-vocabulary_size // 32)
    forced = [(place, guide.forced) for place, guide, _ in guides if guide.forced is not None]
    asked = [
        (place, guide.matcher, num_left)
        for place, guide, num_left in guides
        if guide.forced is None and guide.matcher is not None and not guide.matcher.is_complete
    ]
    if not forced and not asked:
        return None
    words = np.zeros((len(forced) + len(asked), num_words), dtype=np.uint32)
    for row, (_, token_id) in enumerate(forced):
        words[row, token_id // 32] = np.uint32(1 << token_id % 32)
    if asked:
        words[len(forced) :] = writer.write([(matcher, left) for _, matcher, left in asked])
    places = [place for place, _ in forced] + [place for place, _, _ in asked]
    return Masks(places, words)
