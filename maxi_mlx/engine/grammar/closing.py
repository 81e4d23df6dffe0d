"""Finds a short way to the end of a text that a grammar would accept, symbol by symbol.

llguidance says what may come next, not how far the end is. So we walk: closing brackets and quotes
first, then words that the grammar is known to hold, then the rest. What is found is an upper
bound: not always the shortest end, but an end. Tries are counted, so that the same text always ends
the same way; time counts too, but for grammars alone whose every symbol is much work.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from llguidance import LLMatcher

from maxi_mlx.engine.grammar.lark import Words
from maxi_mlx.engine.grammar.tokens import NUM_BYTES

# After these at most so many bytes of a word are looked back for.
RECENT_BYTES = 96
_CLOSERS = tuple(b'}]"')
_BLANKS = tuple(b" \n\t\r")
_ENDS = re.compile(r"/|close|end|<\|call\|>|tool_call\|>", re.IGNORECASE)
_QUOTE, _BACKSLASH = b'"\\'
# In this order, where nothing better is known: what ends an item, then values by their length.
_MARKS = tuple(b",)>:;.!?/-|=_@#$%^&*+~<('`")
_ORDER = (*b"0[ntf{", *b"987654321", *range(0x61, 0x7B), *range(0x41, 0x5B))
# After a digit, where zeros may go on without an end; Z ends a time.
_ORDER_IN_NUMBER = (*_CLOSERS, *b",Zz9876543210")
# Within a string that may not end yet.
_ORDER_IN_STRING = (*b"a-.", *b"0123456789", *range(0x62, 0x7B), *range(0x41, 0x5B))
_CONTROL = 0x01  # allowed in free text, never in a string of JSON
_SHARP = 0x23  # allowed in a string of JSON, never between its parts
_NUM_ALTERNATIVES = 4
# Walks of so many decisions first: most that take more are loops.
_NUM_DECISIONS = 256
_NUM_RANDOM_WALKS = 6
_GLANCE, _NUM_REJOINS = 8, 16


class TooSlow(Exception):
    """A search took more processor time than it may: this grammar is not to be searched."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """``forks``: where more than one symbol could come, and which others were next best."""

    path: list[int]
    forks: list[tuple[int, list[int]]]


class ClosingSearch:
    """Searches one grammar. An end token counts as any other: where the text may not end, it is
    part of the grammar, as of a call that it ends. ``special_names``: symbols and their names."""

    def __init__(self, words: Words, *, num_symbols: int, special_names: Mapping[int, str]) -> None:
        self._text_mask = (1 << num_symbols) - 1
        self._byte_mask = (1 << NUM_BYTES) - 1
        # Another call may be begun where the calls may end: what sounds like an end comes first.
        specials = range(NUM_BYTES, num_symbols)
        self._specials = sorted(
            specials, key=lambda symbol: not _ENDS.search(special_names.get(symbol, ""))
        )
        rest = [i for i in range(NUM_BYTES) if i not in {*_MARKS, *_ORDER, *_BLANKS, _BACKSLASH}]
        self._order = [*_MARKS, *_ORDER, *rest, *_BLANKS, _BACKSLASH]
        self._tags = _continuations(words.tags, from_start=True)
        self._words = _continuations([*words.keys, *words.values], from_start=False)
        self._pieces = _continuations(words.pieces, from_start=True)

    def find(
        self,
        state: LLMatcher,
        recent: bytes,
        *,
        most: int,
        num_retries: int = 0,
        fuel: int,
        time_s: float,
        known: Sequence[int] = (),
    ) -> list[int] | None:
        """Symbols that lead from ``state`` to where the text may end; None where none of at most
        ``most`` was found. ``recent`` is how the text ends so far; ``state`` stays as it is.

        ``num_retries`` is how many other ways are tried, to make it shorter, and ``fuel`` how many
        symbols may be walked in all; where they take ``time_s`` it raises `TooSlow`. ``known`` led
        to the end from somewhere before: the last part of it may again.
        """
        walks = _Walks(self, state, recent, list(known), fuel=fuel, time_s=time_s)
        best = walks.first(most)
        return None if best is None else walks.shortened(best, num_retries).path

    def ranked(self, mask: int, recent: bytes) -> Iterator[int]:
        """The symbols of ``mask`` that are text, the most promising first."""
        mask &= self._text_mask
        seen = 0
        for symbol in self._candidates(mask, recent):
            if (mask & ~seen) >> symbol & 1:
                seen |= 1 << symbol
                yield symbol

    def _candidates(self, mask: int, recent: bytes) -> Iterator[int]:
        if special := mask & ~self._byte_mask:
            yield from (symbol for symbol in self._specials if special >> symbol & 1)
        is_in_string = mask >> _SHARP & 1
        if is_in_string:
            if mask >> _CONTROL & 1:
                yield from _next_bytes(self._tags, recent)
            yield _QUOTE
        elif recent[-1:].isdigit() or recent.endswith(b"."):
            yield from _ORDER_IN_NUMBER
        else:
            yield from _CLOSERS
        yield from _next_bytes(self._words, recent)
        if is_in_string:
            yield from _next_bytes(self._pieces, recent)
            yield from _ORDER_IN_STRING
        yield from _next_bytes(self._pieces, recent, is_begun=True)
        yield from self._order


class _Walks:
    """The walks of one search, which share its fuel and its time."""

    def __init__(
        self,
        search: ClosingSearch,
        state: LLMatcher,
        recent: bytes,
        known: list[int],
        *,
        fuel: int,
        time_s: float,
    ) -> None:
        self._search = search
        self._state = state
        self._recent = recent
        self._known = known
        self._fuel = fuel
        self._ends_at = time.thread_time() + time_s

    def first(self, most: int) -> _Walk | None:
        for num_decisions in (_NUM_DECISIONS, most):
            for chance in (None, *(random.Random(i) for i in range(_NUM_RANDOM_WALKS))):
                walk = self._walk([], most=most, num_decisions=num_decisions, chance=chance)
                if walk is not None:
                    return walk
        return None

    def shortened(self, best: _Walk, num_retries: int) -> _Walk:
        place = 0  # of the fork to try next
        while place < len(best.forks) and num_retries > 0:
            index, others = best.forks[place]
            place += 1
            for symbol in others:
                num_retries -= 1
                try:
                    walk = self._walk([*best.path[:index], symbol], most=len(best.path) - 1)
                except TooSlow:
                    return best
                if walk is not None:
                    kept = [fork for fork in best.forks if fork[0] < index]
                    best, place = _Walk(walk.path, [*kept, *walk.forks]), len(kept)
                    break
        return best

    def _walk(
        self,
        begun: list[int],
        *,
        most: int,
        num_decisions: int = _NUM_DECISIONS,
        chance: random.Random | None = None,
    ) -> _Walk | None:
        """With ``chance`` what was taken less often comes first, now and then, to leave loops."""
        state = self._state.deep_copy()
        if not state.consume_tokens(begun):
            return None
        path, recent = list(begun), _extended(self._recent, begun)
        forks: list[tuple[int, list[int]]] = []
        num_taken: dict[int, int] = {}
        while not state.is_accepting():
            if len(path) > most or len(forks) > num_decisions or not self._may_go_on():
                return None
            step: Sequence[int] = state.compute_ff_bytes()
            if not step or 0xFF in step:  # 0xFF begins llguidance's names of special tokens
                mask = int.from_bytes(state.compute_bitmask(), "little")
                is_novel = chance is not None and chance.random() < 0.5
                num_wanted = None if is_novel else _NUM_ALTERNATIVES
                best = list(islice(self._search.ranked(mask, recent), num_wanted))
                if not best:
                    return None
                if self._known and (rest := self._rejoined(state, mask)) is not None:
                    path += rest
                    break
                if len(best) > 1:
                    forks.append((len(path), best[1:_NUM_ALTERNATIVES]))
                if is_novel:
                    best.sort(key=lambda symbol: num_taken.get(symbol, 0))
                num_taken[best[0]] = num_taken.get(best[0], 0) + 1
                step = best[:1]
            if not state.consume_tokens(list(step)):
                return None
            path += step
            recent = _extended(recent, step)
        return _Walk(path, forks) if len(path) <= most else None

    def _may_go_on(self) -> bool:
        """Pays for one more symbol."""
        if time.thread_time() > self._ends_at:
            raise TooSlow
        self._fuel -= 1
        return self._fuel > 0

    def _rejoined(self, state: LLMatcher, mask: int) -> list[int] | None:
        """A last part of the known way that leads on from ``state``; few are tried, the shortest
        and the longest."""
        places = [i for i, symbol in enumerate(self._known) if mask >> symbol & 1]
        longest = places[:-_NUM_REJOINS][:_NUM_REJOINS]
        for i in (*reversed(places[-_NUM_REJOINS:]), *longest):
            start = self._known[i : i + _GLANCE]
            if state.validate_tokens(start) == len(start):
                rest = self._known[i:]
                trial = state.deep_copy()
                if trial.consume_tokens(rest) and trial.is_accepting():
                    return rest
        return None


def _continuations(words: Sequence[str], *, from_start: bool) -> dict[bytes, list[int]]:
    """Beginnings of words, and the bytes that may come next, in the words' order."""
    table: dict[bytes, list[int]] = {}
    for word in words:
        data = word.encode("utf-8", errors="replace")[:RECENT_BYTES]
        for i in range(0 if from_start else 1, len(data)):
            following = table.setdefault(data[:i], [])
            if data[i] not in following:
                following.append(data[i])
    return table


def _next_bytes(
    table: dict[bytes, list[int]], recent: bytes, *, is_begun: bool = False
) -> Iterator[int]:
    """By the longest beginning of a word that the text ends with, then by shorter ones; the empty
    one counts unless a word must be begun."""
    if table:
        for size in range(min(len(recent), max(map(len, table))), -1 + is_begun, -1):
            yield from table.get(recent[len(recent) - size :], ())


def _extended(recent: bytes, symbols: Sequence[int]) -> bytes:
    more = bytes(symbol for symbol in symbols if symbol < NUM_BYTES)
    return (recent + more)[-RECENT_BYTES:]
