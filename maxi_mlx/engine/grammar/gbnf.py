"""llama.cpp's grammar notation (GBNF) as llguidance's dialect of Lark.

Rules that need no stack become terminals, which are regular expressions and so fast; the others
stay rules. Names are numbered anew, as the two notations allow different ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.engine.grammar.quoting import quoted

_MAX_NESTING = 60
_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\#[^\n]*)+)
      | (?P<define>::=)
      | (?P<name>[A-Za-z0-9_-]+)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<set>\[(?:[^\]\\\n]|\\.)*\])
      | (?P<times>[*+?]|\{\s*[0-9]+\s*(?:,\s*[0-9]*\s*)?\})
      | (?P<mark>[|().])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|(.)", re.DOTALL
)
_SHORT = {"n": "\n", "r": "\r", "t": "\t"}
_PLAIN_ESCAPES = '"\\[]/^-.'


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass(slots=True)
class _Rule:
    """``parts``: Lark text, and names of other rules (as tuples) in it."""

    name: str
    line: int
    parts: list[str | tuple[str, int]] = field(default_factory=list)


def gbnf_to_lark(text: str) -> str:
    """Raises `InvalidRequest`, without a param, naming the line at fault."""
    rules = _Parser(list(_tokens(text))).rules()
    if "root" not in rules:
        raise InvalidRequest("The grammar has no rule 'root', where a GBNF grammar starts.")
    for rule in rules.values():
        for part in rule.parts:
            if isinstance(part, tuple) and part[0] not in rules:
                raise InvalidRequest(
                    f"Line {part[1]} of the grammar names the rule {part[0]!r}, which isn't there."
                )
    terminals = _terminals(rules)
    names = {name: f"R{i}" if name in terminals else f"r{i}" for i, name in enumerate(rules)}
    lines = [
        f"{names[rule.name]}: "
        + " ".join(names[part[0]] if isinstance(part, tuple) else part for part in rule.parts)
        for rule in rules.values()
    ]
    return "\n".join([f"start: {names['root']}", *lines, ""])


def _terminals(rules: dict[str, _Rule]) -> set[str]:
    """Rules that come down to texts and sets, without recursion."""
    terminals: set[str] = set()
    users: dict[str, list[str]] = {name: [] for name in rules}
    num_open: dict[str, int] = {}
    for rule in rules.values():
        named = {part[0] for part in rule.parts if isinstance(part, tuple)}
        num_open[rule.name] = len(named)
        for name in named:
            users[name].append(rule.name)
    ready = [name for name, count in num_open.items() if not count]
    while ready:
        name = ready.pop()
        terminals.add(name)
        for user in users[name]:
            num_open[user] -= 1
            if not num_open[user]:
                ready.append(user)
    return terminals


def _tokens(text: str) -> Iterator[_Token]:
    place, line = 0, 1
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise InvalidRequest(
                f"Line {line} of the grammar can't be read from {text[place : place + 20]!r} on."
            )
        kind = str(match.lastgroup)
        if kind != "blank":
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")
        place = match.end()


class _Parser:
    """Line ends mean nothing: a rule ends where the next one's name and ``::=`` come."""

    def __init__(self, tokens: list[_Token]) -> None:
        end = _Token("end", "", tokens[-1].line if tokens else 1)
        self._tokens = [*tokens, end, end]
        self._place = 0

    def rules(self) -> dict[str, _Rule]:
        rules: dict[str, _Rule] = {}
        while self._now.kind != "end":
            if not self._begins_rule():
                raise self._error("a rule (name ::= ...) was expected")
            rule = _Rule(self._now.text, self._now.line)
            if rule.name in rules:
                raise self._error(f"the rule {rule.name!r} is there already")
            self._place += 2
            self._alternatives(rule, depth=0)
            rules[rule.name] = rule
        return rules

    @property
    def _now(self) -> _Token:
        return self._tokens[self._place]

    def _begins_rule(self) -> bool:
        return self._now.kind == "name" and self._tokens[self._place + 1].kind == "define"

    def _error(self, what: str) -> InvalidRequest:
        found = repr(self._now.text) if self._now.text else "the end"
        return InvalidRequest(f"Line {self._now.line} of the grammar, at {found}: {what}.")

    def _alternatives(self, rule: _Rule, *, depth: int) -> None:
        if depth > _MAX_NESTING:
            raise self._error(f"more than {_MAX_NESTING} parentheses are open")
        self._sequence(rule, depth=depth)
        while self._now.text == "|" and self._now.kind == "mark":
            rule.parts.append("|")
            self._place += 1
            self._sequence(rule, depth=depth)

    def _sequence(self, rule: _Rule, *, depth: int) -> None:
        num_parts = len(rule.parts)
        while not self._begins_rule() and self._item(rule, depth=depth):
            if self._now.kind == "times":
                rule.parts.append(self._now.text.replace(" ", ""))
                self._place += 1
        if len(rule.parts) == num_parts:
            rule.parts.append('""')

    def _item(self, rule: _Rule, *, depth: int) -> bool:
        token = self._now
        match token.kind, token.text:
            case "name", _:
                rule.parts.append((token.text, token.line))
            case "text", _:
                rule.parts.append(quoted("".join(self._characters(token.text[1:-1]))))
            case "set", _:
                rule.parts.append(self._set(token.text[1:-1]))
            case "mark", ".":
                rule.parts.append("/(?s:.)/")
            case "mark", "(":
                rule.parts.append("(")
                self._place += 1
                self._alternatives(rule, depth=depth + 1)
                if self._now.text != ")":
                    raise self._error("')' was expected")
                rule.parts.append(")")
            case _:
                if token.kind in ("define", "times"):
                    raise self._error("something to go before it is missing")
                return False
        self._place += 1
        return True

    def _characters(self, text: str) -> Iterator[str]:
        for match in _ESCAPE.finditer(text):
            two, four, eight, escaped, plain = match.groups()
            if code := two or four or eight:
                if int(code, 16) > 0x10FFFF or 0xD800 <= int(code, 16) < 0xE000:
                    raise self._error(f"{match[0]} is no character")
                yield chr(int(code, 16))
            elif escaped:
                if escaped not in _SHORT and escaped not in _PLAIN_ESCAPES:
                    raise self._error(f"{match[0]} is no escape")
                yield _SHORT.get(escaped, escaped)
            else:
                yield plain

    def _set(self, text: str) -> str:
        """A set of characters as a regular expression, every character by its number."""
        is_negated = text.startswith("^")
        text = text[is_negated:]
        # An escaped '-' is a character, a bare one between two characters a range.
        spans = [match.group() for match in _ESCAPE.finditer(text)]
        out, i = [], 0
        while i < len(spans):
            first = next(self._characters(spans[i]))
            last = first
            if i + 2 < len(spans) and spans[i + 1] == "-":
                last = next(self._characters(spans[i + 2]))
                i += 2
            if last < first:
                raise self._error(f"the range {first!r} to {last!r} runs backwards")
            out.append(f"\\x{{{ord(first):x}}}-\\x{{{ord(last):x}}}")
            i += 1
        if not out:
            raise self._error("an empty set matches nothing")
        return f"/[{'^' if is_negated else ''}{''.join(out)}]/"
