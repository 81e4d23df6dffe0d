"""One answer's place in its grammar: what may come next, and whether there is room to close.

    draw ─► commit(drawn) ─► the token that stands: the drawn one, or the next of the close
              │
              └─ kept: a close (tokens to where the text may end) that fits what is left

Lives on the device thread with its row, and outlasts a batch: nothing in it is MLX's.
"""

from __future__ import annotations

from collections.abc import Sequence

from llguidance import LLMatcher

from maxi_mlx.core.errors import EngineFailed, InvalidRequest
from maxi_mlx.engine.grammar.closing import RECENT_BYTES, TooSlow
from maxi_mlx.engine.grammar.compiler import CompiledGrammar, close_tokens
from maxi_mlx.engine.grammar.tokens import NUM_BYTES

# What the close may grow by with one token, until an answer shows more.
_LEAST_GROWTH = 16
# A thought ends so much earlier than it must, for something to be said after it.
_MOST_RESERVE = 256
_NUM_RETRIES = 16
_FUEL, _RETRY_FUEL = 3_000, 1_000  # some 10 ms per thousand
# The device waits for so long, and once an answer: after a search that took longer there is none.
# Of the grammars that tools make, the most costly take 0.2 s of a slow machine.
_SEARCH_S = 0.5


class Matcher:
    """``max_tokens`` is the answer's budget; ends that are no text count, as in the row."""

    def __init__(self, grammar: CompiledGrammar, *, max_tokens: int) -> None:
        self._grammar = grammar
        self.tokenizer = grammar.tokenizer
        self.state: LLMatcher = grammar.tokens.deep_copy()  # for `masks` alone
        self._symbols: LLMatcher = grammar.symbols.deep_copy()
        self._unread: list[int] = []  # committed tokens that _symbols has not seen
        self._recent = b""
        self._close: list[int] | None = None if grammar.close is None else list(grammar.close)
        # Whether the answer can still be closed in time, as far as was found.
        self.is_steered = self._close is not None and len(self._close) <= max_tokens
        self._hint: list[int] = []  # the last close that was known
        self._growth = max(_LEAST_GROWTH, len(self._close or ()), grammar.growth)
        self._num_until_check = 0
        self._reserve = 0
        self._thought_begin = (grammar.constraint.thought_begin or "").encode()
        self._thought_end = (grammar.constraint.thought_end or "").encode()
        self._thought_tail = b""
        if self.is_steered and grammar.has_thought:
            self._reserve = min(_MOST_RESERVE, (max_tokens - len(self._close or ())) // 2)
        self._plan_check(max_tokens - self._reserve)

    @property
    def is_complete(self) -> bool:
        """Whether nothing but an end can come: the answer may stop without one."""
        return self.state.is_stopped() and not self.state.is_error()

    @property
    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        return self.state.is_accepting()

    @property
    def may_replace(self) -> bool:
        """Whether the next `commit` may put another token in the drawn one's place. The model must
        then not be run on the drawn token before."""
        return self.is_steered and self._num_until_check == 0

    def forced(self, num_left: int) -> int | None:
        """The one token that leaves room to close, where there is no other; ``num_left`` tokens
        may be drawn yet."""
        close = self._close
        if self.is_steered and close and len(close) >= num_left - self._reserve:
            return close[0]
        return None

    def commit(self, drawn: int, *, num_left: int) -> int:
        """Goes on by the drawn token, or by another that it returns: where after the drawn one
        there would be no room to close, the next token of a close. ``num_left`` counts it in."""
        if self.is_complete:
            return drawn
        token_id = self._fitting(drawn, num_left) if self.is_steered else drawn
        if not self.state.consume_token(token_id):
            # llguidance has no other word for it than its message.
            if "doesn't satisfy" in self.state.get_error():
                raise EngineFailed(f"Token {token_id} does not fit the grammar.")
            raise self.fault or EngineFailed("The grammar took no token, and gave no reason.")
        self._unread.append(token_id)
        if self._thought_end:
            self._look_for_thought_end(token_id)
        return token_id

    def replay(self, token_ids: Sequence[int]) -> None:
        """Goes on by tokens that stood already, as they are, for a row that is read anew."""
        for token_id in token_ids:
            if not self.is_complete and not self.state.consume_token(token_id):
                raise self.fault or EngineFailed("An answer no longer fits its grammar.")
            self._unread.append(token_id)
            if self._thought_end:
                self._look_for_thought_end(token_id)
        if token_ids:
            self._close, self._num_until_check = None, 0

    @property
    def fault(self) -> InvalidRequest | None:
        """Why the answer can't go on, where llguidance gave up."""
        error = self.state.get_error()
        if not error:
            return None
        return InvalidRequest(
            "The grammar became too much work at this point of the answer: "
            f"{error.splitlines()[0][:200]}.",
            param=self._grammar.constraint.param,
        )

    # -- room to close -----------------------------------------------------------------------

    def _fitting(self, drawn: int, num_left: int) -> int:
        """Keeps that ``_close``, where it is known, leads from the state after this token."""
        if self._num_until_check:
            self._num_until_check -= 1
            self._close = None
            return drawn
        close, room = self._close, num_left - 1 - self._reserve
        if close and drawn == close[0]:
            self._kept_close(close[1:], room)
            return drawn
        after = self._close_after(drawn, room)
        if after is not None:
            self._kept_close(after, room)
            return drawn
        if close is None:
            close = self._searched(self.state, self._read_symbols(), (), room + 1)
        if close is None:
            self._lost_close(room)
            return drawn
        if not close:
            return drawn if self.tokenizer.end_id is None else self.tokenizer.end_id
        self._kept_close(close[1:], room)
        return close[0]

    def _lost_close(self, room: int) -> None:
        """No way to an end was found, or none that is short enough; perhaps further on."""
        if self._reserve:
            self._reserve = 0
        elif room <= 0:
            self.is_steered = False
        self._close, self._num_until_check = None, min(16, max(room, 0) // 8)

    def _kept_close(self, close: list[int], room: int) -> None:
        if self._close is not None:
            self._growth = max(self._growth, len(close) - len(self._close))
        self._close = self._hint = close
        self._plan_check(room)

    def _plan_check(self, room: int) -> None:
        """Far from the budget's end there is nothing to look for at every token."""
        slack = room - len(self._close or ())
        self._num_until_check = max(0, slack // (self._growth + 1) - 2)

    def _close_after(self, drawn: int, room: int) -> list[int] | None:
        """A close of at most ``room`` tokens from the state after ``drawn``."""
        after = self.state.deep_copy()
        if not after.consume_token(drawn):
            return None
        if after.is_accepting():
            return []
        # Within a string, say, the end stays what it was.
        if self._hint and len(self._hint) <= room:
            trial = after.deep_copy()
            if trial.consume_tokens(self._hint) and trial.is_accepting():
                return self._hint
        return self._searched(after, self._read_symbols(), self.tokenizer.symbols_of(drawn), room)

    def _searched(
        self, state: LLMatcher, symbols: LLMatcher, more: Sequence[int], room: int
    ) -> list[int] | None:
        if room <= 0:
            return None
        symbols = symbols.deep_copy()
        if not symbols.consume_tokens(list(more)):
            return None
        recent = self._recent + bytes(i for i in more if i < NUM_BYTES)
        known = [symbol for i in self._hint for symbol in self.tokenizer.symbols_of(i)]
        for num_retries in (0, _NUM_RETRIES):
            try:
                path = self._grammar.search.find(
                    symbols,
                    recent,
                    most=8 * room + 64,
                    num_retries=num_retries,
                    fuel=_RETRY_FUEL if num_retries else _FUEL,
                    time_s=_SEARCH_S,
                    known=known if not num_retries else (),
                )
            except TooSlow:
                self.is_steered = False
                return None
            close = None if path is None else close_tokens(state, path, self.tokenizer)
            if close is None or len(close) <= room:
                return close
            if len(close) > 2 * room:
                break
        return None

    def _read_symbols(self) -> LLMatcher:
        """The symbols' matcher, at the committed tokens' end."""
        for token_id in self._unread:
            more = self.tokenizer.symbols_of(token_id)
            self._symbols.consume_tokens(list(more))
            text = bytes(symbol for symbol in more if symbol < NUM_BYTES)
            self._recent = (self._recent + text)[-RECENT_BYTES:]
        self._unread.clear()
        return self._symbols

    def _look_for_thought_end(self, token_id: int) -> None:
        """Once the thought is over, or was left out, there is no more need to end it early."""
        tail = self._thought_tail + self.tokenizer.data(token_id)
        begin, self._thought_tail = self._thought_begin, tail
        if begin and begin.startswith(tail):
            return
        if not tail.startswith(begin) or self._thought_end in tail:
            self._thought_begin = self._thought_end = self._thought_tail = b""
            self._reserve = 0
        else:
            self._thought_begin, self._thought_tail = b"", tail[-len(self._thought_end) :]
