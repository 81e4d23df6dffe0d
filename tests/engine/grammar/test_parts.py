"""The parts that a compiled grammar is made of, each by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from llguidance import LLMatcher

from maxi_mlx.core.grammar import Constraint, Pattern, json_by_schema
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.examples import example
from maxi_mlx.engine.grammar.least_size import ENDLESS, LARGE, LeastSize
from maxi_mlx.engine.grammar.matcher import Matcher
from maxi_mlx.engine.grammar.schema import check_schema
from maxi_mlx.engine.grammar.tokens import GrammarTokenizer, encoder_of
from maxi_mlx.text.vocabulary import Vocabulary
from tests.conftest import TinyModel
from tests.engine.grammar.answers import allowed_tokens, random_answer

PATTERNS = [
    r"^[A-Z]{3}-\d{4}$",
    r"(foo|ba)+x?",
    r"[^a-z]{2}\S\w\D",
    r"a*?b+?",
    r"\.\/\n",
    r"(?i:AB)|c{0,9}",
    "[é-ü]",
    "[^\x00-\x7f]",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_example_matches_its_pattern(pattern: str) -> None:
    text = example(pattern)
    assert text is not None
    assert re.search(pattern, text)


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", "a{200}", "x" * 3000, r"(a)\1", "(?i", "[]"])
def test_a_pattern_without_an_example(pattern: str) -> None:
    assert example(pattern) is None


SIZES = [
    pytest.param({"type": "string"}, '""', id="string"),
    pytest.param({"type": "string", "minLength": 9}, '"aaaaaaaaa"', id="long string"),
    pytest.param({"type": "integer", "minimum": 12345}, "12345", id="number"),
    pytest.param({"enum": ["abc", "de"]}, '"de"', id="enum"),
    pytest.param(
        {"type": "array", "minItems": 3, "items": {"const": "x"}}, '["x","x","x"]', id="array"
    ),
    pytest.param(
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        '{"a":""}',
        id="object",
    ),
    pytest.param({"anyOf": [{"const": "long text"}, {"type": "null"}]}, "null", id="any of"),
    pytest.param({"$ref": "#/$defs/x", "$defs": {"x": {"const": "abcdef"}}}, '"abcdef"', id="ref"),
    pytest.param(
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"format": "date"}}},
        '"2000-01-01"',
        id="ref's escapes",
    ),
]


@pytest.mark.parametrize(("schema", "shortest"), SIZES)
def test_the_least_size_is_about_the_shortest_text(schema: dict[str, Any], shortest: str) -> None:
    size = LeastSize(schema).of(schema)
    assert len(shortest) - 4 <= size <= len(shortest) + 8


def _node(**more: Any) -> dict[str, Any]:
    """An object with one required key."""
    return {"type": "object", "properties": {"a": more}, "required": ["a"]}


_HERE = {"$ref": "#"}
# What is looked for first of A leads back to it, and must not be taken to be without an end.
_ROUND = {
    "type": "object",
    "required": ["a", "b"],
    "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/B"}},
    "$defs": {
        "A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]},
        "B": _node(**{"$ref": "#/$defs/A"}),
    },
}


@pytest.mark.parametrize(
    ("schema", "is_endless"),
    [
        (_node(**_HERE), True),
        (_node(anyOf=[_HERE, _node(**_HERE)]), True),
        (_node(allOf=[{}, _HERE]), True),
        ({"type": "array", "items": _HERE, "minItems": 1}, True),
        ({"type": "array", "prefixItems": [{}, _HERE], "minItems": 2}, True),
        (_node(anyOf=[_HERE, {"type": "null"}]), False),
        ({"type": "array", "items": _HERE}, False),
        ({"type": "array", "prefixItems": [{}, _HERE], "minItems": 1}, False),
        ({**_node(**_HERE), "type": ["object", "null"]}, False),
        ({"properties": {"a": _HERE}, "required": ["a"]}, False),
        ({"type": "string", "minLength": 10**18}, False),
        ({"type": "array", "items": {"type": "string"}, "minItems": 10**18}, False),
        (_ROUND, False),
    ],
    ids=str,
)
def test_a_schema_without_an_end(schema: dict[str, Any], is_endless: bool) -> None:
    sizes = LeastSize(schema)
    assert sizes.is_endless is is_endless
    assert (sizes.of(schema) >= ENDLESS) is is_endless


def test_what_nests_too_deeply_to_tell_is_not_called_endless() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        schema = _node(**schema)
    assert LeastSize(schema).of(schema) == LARGE
    assert not LeastSize(schema).is_endless


def test_words_of_a_schema() -> None:
    checked = check_schema(
        json_by_schema(
            {
                "properties": {"kind": {"enum": ["longer", "é", 3]}, "at": {"format": "date"}},
                "required": ["kind"],
            }
        ).schema
    )
    assert checked.keys == ['"kind"']
    assert checked.values == ['"é"', '"longer"']
    assert checked.pieces == ["2000-01-01"]


BYTES = [bytes([i]) for i in range(256)]


def test_a_model_without_an_end_stops_by_itself() -> None:
    tokenizer = GrammarTokenizer(Vocabulary(BYTES, special_ids=set()), size=256, end_ids=set())
    compiler = GrammarCompiler(lambda: tokenizer)
    grammar = compiler.compile(Constraint(node=Pattern("ab+"), param="x"))
    matcher = Matcher(grammar, max_tokens=9)
    assert allowed_tokens(matcher, 9) == [ord("a")]
    assert random_answer(grammar, max_tokens=9, seed=0).is_whole
    exact = compiler.compile(Constraint(node=Pattern("ab"), param="x"))
    assert random_answer(exact, max_tokens=9, seed=0).text == "ab"


def test_every_end_may_end_an_answer() -> None:
    data = [*BYTES, b"<a>", b"<b>"]
    vocabulary = Vocabulary(data, special_ids={256, 257})
    tokenizer = GrammarTokenizer(vocabulary, size=258, end_ids={256, 257})
    grammar = GrammarCompiler(lambda: tokenizer).compile(Constraint(node=Pattern("a*"), param="x"))
    assert allowed_tokens(Matcher(grammar, max_tokens=9), 9) == [ord("a"), 256, 257]


def test_text_is_spelt_in_the_longest_tokens() -> None:
    vocabulary = Vocabulary([b"a", b"ab", b"b", b"<s>"], special_ids={3})
    tokenizer = GrammarTokenizer(vocabulary, size=4, end_ids={3})
    symbol = tokenizer.symbol_of[3]
    assert tokenizer.spell([*b"aab", symbol, *b"b"]) == [0, 1, 3, 2]
    assert tokenizer.spell(list(b"ac")) is None
    assert list(tokenizer.symbols_of(1)) == list(b"ab")
    assert tokenizer.symbols_of(3) == (symbol,)


def test_an_encoder_that_adds_a_space_is_not_believed() -> None:
    data = [*BYTES, b"yes", b" yes"]
    tokenizer = GrammarTokenizer(
        Vocabulary(data, special_ids=set()), size=258, end_ids=set(), encode=lambda _: [257]
    )
    matcher = LLMatcher(tokenizer.tokens, LLMatcher.grammar_from_regex("yes"))
    assert matcher.compute_ff_tokens() == [256]


def test_an_encoder_is_a_copy(tiny_model: TinyModel) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model("qwen3"))
    encode = encoder_of(tokenizer)
    assert encode is not None
    tokenizer.backend_tokenizer.enable_truncation(1)
    assert list(encode("Hello world")) == tokenizer.encode("Hello world", truncation=False)
    assert len(encode("Hello world")) > 1
    assert encoder_of(object()) is None
