"""A constraint as llguidance's dialect of Lark. It is written once for each vocabulary that it is
compiled for, as special tokens go by number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from llguidance import regex_to_lark

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import (
    BLANKS,
    Constraint,
    FreeText,
    Gbnf,
    InOrder,
    Json,
    Lark,
    Literal,
    Node,
    OneOf,
    Pattern,
    Repeated,
    Syntax,
)
from maxi_mlx.engine.grammar import formats
from maxi_mlx.engine.grammar.ecma import rust_pattern
from maxi_mlx.engine.grammar.examples import ends_in_escape, example
from maxi_mlx.engine.grammar.gbnf import gbnf_to_lark
from maxi_mlx.engine.grammar.quoting import quoted
from maxi_mlx.engine.grammar.schema import check_schema

MAX_GRAMMAR_BYTES = 128 * 1024
MAX_CHOICES = 10_000

# Bounded, or a model that likes blanks writes nothing else.
_JSON_OPTIONS = {
    "whitespace_pattern": r" |\n[ \t]{0,40}",
    "lenient": False,
    "coerce_one_of": False,
}
_FREE = "/(?s:.*)/"
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)+)"')
_MAX_TAGS = 200
_NEXT_JSON = re.compile(r"%json\s*")


@dataclass(slots=True)
class Words:
    """Texts that an answer may hold; a search for its end tries them first. ``tags`` end free
    text, ``keys`` are required in JSON, ``values`` are constants of it, shortest first; ``pieces``
    are matches of patterns, which may begin anywhere. ``growth``: how many bytes more a close may
    need once another part of the text is begun."""

    tags: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    growth: int = 0


class GrammarWriter:
    """Writes one constraint. ``special_numbers``: special tokens' names and their numbers in the
    vocabulary at hand."""

    def __init__(self, special_numbers: Mapping[str, int]) -> None:
        self._special_numbers = special_numbers
        names = sorted(special_numbers, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names)) or "(?!)")
        self._rules: list[str] = []
        self._sides: list[dict[str, str]] = []
        self.words = Words()

    def write(self, constraint: Constraint) -> str:
        """Raises `InvalidRequest`, without a param, for what is too large or wrong."""
        node = constraint.node
        if constraint.thought_end is None and isinstance(node, Lark | Gbnf):
            return self._grammar_text(node)
        body = self._expression(node)
        if constraint.thought_end is not None:
            thought: list[Node] = [FreeText(until=constraint.thought_end), BLANKS]
            if constraint.thought_begin is None:
                body = f"{self._expression(InOrder(tuple(thought)))} {body}"
            else:
                begun = InOrder((Syntax(constraint.thought_begin), *thought))
                body = f"({self._expression(begun)})? {body}"
        main = "\n".join([f"start: {body}", *self._rules, ""])
        if not self._sides:
            return main
        return json.dumps({"grammars": [{"name": "main", "lark_grammar": main}, *self._sides]})

    def spelled(self, text: str) -> list[int]:
        """The text of a syntax in bytes, and in the numbers of its special tokens."""
        numbers: list[int] = []
        for part in self._parts(text):
            numbers += [part] if isinstance(part, int) else part.encode()
        return numbers

    def _expression(self, node: Node) -> str:
        match node:
            case Literal(text):
                return quoted(text)
            case Syntax(text):
                return self._syntax(text)
            case Json(schema):
                return self._rule(f"%json {self._schema(schema)}")
            case Pattern(regex):
                _sized(regex, "regular expression")
                if ends_in_escape(regex):
                    raise InvalidRequest("The regular expression ends with a lone backslash.")
                self.words.pieces += [text for text in [example(regex)] if text]
                # Who asks for digits means 0 to 9; Rust's would be those of every script.
                return f"/{regex_to_lark(regex, use_ascii='dw')}/"
            case Lark() | Gbnf():
                name = f"side{len(self._sides)}"
                self._sides.append({"name": name, "lark_grammar": self._grammar_text(node)})
                return f"@{name}"
            case FreeText(until=None):
                return _FREE
            case FreeText():
                return self._free_until(node)
            case OneOf(options):
                return self._one_of(options)
            case InOrder(parts):
                return " ".join(self._expression(part) for part in parts) or '""'
            case Repeated(part, least, most):
                times = f"{{{least},{'' if most is None else most}}}"
                return f"({self._expression(part)}){times}"

    def _rule(self, body: str, *, options: str = "") -> str:
        name = f"part{len(self._rules)}"
        self._rules.append(f"{name}{options}: {body}")
        return name

    def _one_of(self, options: tuple[Node, ...]) -> str:
        if not options:
            raise InvalidRequest("There is nothing to choose from: the list is empty.")
        if len(options) > MAX_CHOICES:
            raise InvalidRequest(
                f"There are {len(options)} options to choose from; the most is {MAX_CHOICES}."
            )
        texts = [option.text for option in options if isinstance(option, Literal)]
        if len(texts) == len(options):
            return self._one_text(texts)
        return f"({' | '.join(self._expression(option) for option in options)})"

    def _one_text(self, texts: list[str]) -> str:
        """One terminal, which is one automaton: beginnings that texts share cost nothing."""
        _sized("".join(texts), "list of choices")
        self.words.values += sorted(texts, key=len)[:200]
        some = [quoted(text) for text in texts if text]
        one = self._terminal(" | ".join(some)) if some else '""'
        return one if len(some) == len(texts) else f'({one} | "")'

    def _syntax(self, text: str) -> str:
        parts = self._parts(text)
        return " ".join(f"<[{part}]>" if isinstance(part, int) else quoted(part) for part in parts)

    def _parts(self, text: str) -> list[str | int]:
        """Text, and special tokens by their numbers."""
        parts: list[str | int] = []
        place = 0
        for match in self._special.finditer(text):
            if match.start() > place:
                parts.append(text[place : match.start()])
            parts.append(self._special_numbers[match[0]])
            place = match.end()
        if place < len(text) or not parts:
            parts.append(text[place:])
        return parts

    def _free_until(self, node: FreeText) -> str:
        assert node.until is not None
        first = self._special.search(node.until)
        text = node.until[: first.start()] if first else node.until
        self.words.tags.append(text)
        rest = node.until[len(text) :]
        bounds = self._bounds(node)
        if not text:
            return f"{self._terminal(' & '.join(bounds))} {self._syntax(rest)}"
        if node == FreeText(until=node.until):
            # A lazy terminal ends where its text first can end.
            ended = self._rule(f"{_FREE} {quoted(text)}", options="[lazy]")
        else:
            without = f"~/(?s:.*){_by_numbers(node.without or text)}(?s:.*)/"
            body = self._terminal(" & ".join([*bounds, without]))
            ended = self._terminal(f"{body} {quoted(text)}")
        return f"{ended} {self._syntax(rest)}" if rest else ended

    def _bounds(self, node: FreeText) -> list[str]:
        most = "" if node.most is None else node.most
        bounds = [f"/(?s:.{{{node.least},{most}}})/" if node.least or node.most else _FREE]
        if node.most == 0:
            bounds = ['""']
        if node.pattern is not None:
            _sized(node.pattern, "pattern")
            core = rust_pattern(node.pattern)
            before, core = ("", core[1:]) if core.startswith("^") else ("(?s:.*)", core)
            ends = core.endswith("$") and not ends_in_escape(core[:-1])
            after, core = ("", core[:-1]) if ends else ("(?s:.*)", core)
            regex = regex_to_lark(f"{before}(?:{core}){after}", use_ascii="dw")
            self.words.pieces += [text for text in [example(node.pattern)] if text]
            bounds.append(f"/{regex}/")
        if node.format is not None:
            self.words.pieces.append(formats.EXAMPLES[node.format])
            bounds.append(f"/{regex_to_lark(formats.PATTERNS[node.format], use_ascii='')}/")
        return bounds

    def _terminal(self, body: str) -> str:
        name = f"PART{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name

    def _schema(self, text: str) -> str:
        checked = check_schema(text)
        self.words.keys += checked.keys
        self.words.values += checked.values
        self.words.pieces += checked.pieces
        self.words.growth = max(self.words.growth, checked.growth)
        return json.dumps({**checked.schema, "x-guidance": _JSON_OPTIONS})

    def _grammar_text(self, node: Lark | Gbnf) -> str:
        _sized(node.text, "grammar")
        is_lark = isinstance(node, Lark)
        lark = self._with_checked_schemas(node.text) if is_lark else gbnf_to_lark(node.text)
        # Any of its texts may be what ends a free one.
        self.words.tags += [text for text in _TEXT.findall(lark)[:_MAX_TAGS] if "\\" not in text]
        return lark

    def _with_checked_schemas(self, lark: str) -> str:
        """Schemas within a grammar are as dangerous as others."""
        parts, place = [], 0
        while match := _NEXT_JSON.search(lark, place):
            parts.append(lark[place : match.end()])
            try:
                schema, place = json.JSONDecoder().raw_decode(lark, match.end())
            except (ValueError, RecursionError) as error:
                line = lark.count("\n", 0, match.start()) + 1
                message = f"Line {line} of the grammar has a %json without a JSON schema."
                raise InvalidRequest(message) from error
            parts.append(self._schema(json.dumps(schema)))
        return "".join([*parts, lark[place:]])


def _by_numbers(text: str) -> str:
    """Text as a regular expression."""
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def _sized(text: str, what: str) -> str:
    num_bytes = len(text.encode("utf-8", errors="surrogatepass"))
    if num_bytes > MAX_GRAMMAR_BYTES:
        raise InvalidRequest(
            f"The {what} has {num_bytes} bytes; the most is {MAX_GRAMMAR_BYTES}. Make it smaller."
        )
    return text
