"""Compiles constraints for one model, and keeps those of late: most come again.

Safe to call from any worker thread; not for the event loop (milliseconds, for the largest schemas
some hundred) nor for the device thread.
"""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import MAX_BLANKS, Constraint, Lark
from maxi_mlx.engine.grammar.closing import ClosingSearch, TooSlow
from maxi_mlx.engine.grammar.lark import GrammarWriter
from maxi_mlx.engine.grammar.tokens import GrammarTokenizer

logger = logging.getLogger(__name__)

_NUM_KEPT = 64
_SLOW_S = 1.0
_MAX_CLOSE_SYMBOLS = 32_768
_NUM_RETRIES = 64
_FUEL = 40_000  # some 0.5 s; more than any schema of use needs
_SEARCH_S = 1.5

# Text, then what one step may cost: 50,000 items are some 3 ms, 200,000 of fuel some 15 ms.
_LIMITS = LLParserLimits(
    max_items_in_row=2000,
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=300_000,
    verbose_errors=False,
)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGrammar:
    """Both matchers stand at the start, and are only copied. ``close`` are tokens of the shortest
    text that was found; None where none was, and then no answer can be steered to a close.
    ``growth``: how many bytes a close may grow by with one token."""

    constraint: Constraint
    tokenizer: GrammarTokenizer
    tokens: LLMatcher
    symbols: LLMatcher
    search: ClosingSearch
    close: tuple[int, ...] | None
    growth: int

    @property
    def has_thought(self) -> bool:
        return self.constraint.thought_end is not None


class GrammarCompiler:
    """``make_tokenizer`` is called once, when the first constraint comes."""

    def __init__(self, make_tokenizer: Callable[[], GrammarTokenizer]) -> None:
        self._make_tokenizer = make_tokenizer
        self._tokenizer: GrammarTokenizer | None = None
        self._making = Lock()
        self._compiled: OrderedDict[Constraint, CompiledGrammar] = OrderedDict()
        self._lock = Lock()

    @property
    def tokenizer(self) -> GrammarTokenizer:
        with self._making:
            if self._tokenizer is None:
                self._tokenizer = self._make_tokenizer()
            return self._tokenizer

    def compile(self, constraint: Constraint) -> CompiledGrammar:
        """Raises `InvalidRequest` with the constraint's param and what in it can't be done."""
        with self._lock:
            known = self._compiled.get(constraint)
            if known is not None:
                self._compiled.move_to_end(constraint)
                return known
        tokenizer = self.tokenizer
        started = time.perf_counter()
        try:
            compiled = _compile(constraint, tokenizer)
        except InvalidRequest as error:
            error.param = error.param or constraint.param
            raise
        taken_s = time.perf_counter() - started
        if taken_s > _SLOW_S:
            logger.warning("compiling %s took %.1f s", constraint.param, taken_s)
        with self._lock:
            self._compiled[constraint] = compiled
            while len(self._compiled) > _NUM_KEPT:
                self._compiled.popitem(last=False)
        return compiled


def _compile(constraint: Constraint, tokenizer: GrammarTokenizer) -> CompiledGrammar:
    writer = GrammarWriter(tokenizer.special_names)
    tokens = _matcher(tokenizer.tokens, writer, constraint)
    numbers = {
        name: tokenizer.symbol_of[token_id] for name, token_id in tokenizer.special_names.items()
    }
    symbol_writer = GrammarWriter(numbers)
    symbols = _matcher(tokenizer.symbols, symbol_writer, constraint)
    # The first mask builds tables that all copies share, and shows grammars that allow nothing.
    tokens.compute_bitmask()
    _raise_error(tokens, constraint)
    if constraint.thought_end is not None:
        _check_after_thought(symbols, symbol_writer, constraint)
    search = ClosingSearch(
        writer.words,
        num_symbols=tokenizer.num_symbols,
        special_names={number: name for name, number in numbers.items()},
    )
    return CompiledGrammar(
        constraint=constraint,
        tokenizer=tokenizer,
        tokens=tokens,
        symbols=symbols,
        search=search,
        close=_first_close(search, tokens, symbols, tokenizer),
        growth=writer.words.growth,
    )


def _matcher(vocabulary: LLTokenizer, writer: GrammarWriter, constraint: Constraint) -> LLMatcher:
    matcher = LLMatcher(vocabulary, writer.write(constraint), log_level=0, limits=_LIMITS)
    _raise_error(matcher, constraint)
    return matcher


def _check_after_thought(symbols: LLMatcher, writer: GrammarWriter, constraint: Constraint) -> None:
    """A thought can always come, so that a form which allows nothing shows only after it."""
    assert constraint.thought_end is not None
    thought = (constraint.thought_begin or "") + constraint.thought_end
    after = symbols.deep_copy()
    if after.consume_tokens(writer.spelled(thought + "\n" * MAX_BLANKS)):
        after.compute_bitmask()
        _raise_error(after, constraint)


def _first_close(
    search: ClosingSearch, tokens: LLMatcher, symbols: LLMatcher, tokenizer: GrammarTokenizer
) -> tuple[int, ...] | None:
    try:
        path = search.find(
            symbols,
            b"",
            most=_MAX_CLOSE_SYMBOLS,
            num_retries=_NUM_RETRIES,
            fuel=_FUEL,
            time_s=_SEARCH_S,
        )
    except TooSlow:
        return None
    close = None if path is None else close_tokens(tokens, path, tokenizer)
    return None if close is None else tuple(close)


def close_tokens(
    state: LLMatcher, path: list[int], tokenizer: GrammarTokenizer
) -> list[int] | None:
    """A path of symbols as tokens that lead from ``state`` to an end. A grammar may refuse a token
    that reaches over a border in it; single bytes then do."""
    by_symbol = [tokenizer.spell([symbol]) for symbol in path]
    single = None if None in by_symbol else [i for ids in by_symbol for i in ids or ()]
    for token_ids in (tokenizer.spell(path), single):
        if token_ids is None:
            continue
        trial = state.deep_copy()
        if trial.consume_tokens(token_ids) and trial.is_accepting():
            return token_ids
    return None


_REASON = re.compile(r"error: (.+)")
_PLACE = re.compile(r"^at (\d+)\(\d+\): ")
_KNOWN_REASONS = (
    (
        "oneOf constraints are not supported",
        "'oneOf' can't be enforced here, as its options may overlap. Use anyOf, or give each "
        "option a required property with a const of its own.",
    ),
    ("NoExtension", "No text fits it: it contradicts itself, or repeats itself without an end."),
    ("recursion limit", "It is nested too deeply. Make it flatter."),
    ("schema too large", "Its combinations (anyOf within allOf) are too many. Make it smaller."),
    ("too big", "It is too large for the time that a grammar may take. Make it smaller."),
    (
        "lookarounds not supported",
        r"It can't be enforced: a pattern in it has \b or \B, which look around. Leave them out.",
    ),
)


def _raise_error(matcher: LLMatcher, constraint: Constraint) -> None:
    error = matcher.get_error()
    if not error:
        return
    for part, message in _KNOWN_REASONS:
        if part in error:
            raise InvalidRequest(message)
    first = error.split("\n<non-verbose/>")[0]
    place = _PLACE.match(first)
    reason = _REASON.search(first)
    text = reason[1] if reason else _PLACE.sub("", first.splitlines()[0])
    text = text.strip().removeprefix("failed to compile JSON schema: ")[:300]
    if text.startswith("Unsatisfiable schema: "):
        raise InvalidRequest(f"No JSON fits it: {text.removeprefix('Unsatisfiable schema: ')}.")
    # Of what was written by us the client knows no lines.
    is_own = isinstance(constraint.node, Lark) and constraint.thought_end is None
    where = f" (line {place[1]})" if place and is_own else ""
    raise InvalidRequest(f"It can't be enforced: {text}{where}.")
