"""What compiles and what is refused, in which words; and that the catastrophic ends quickly."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from typing import Any

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import (
    BLANKS,
    Constraint,
    Gbnf,
    Json,
    Lark,
    Literal,
    Node,
    Pattern,
    any_of_texts,
    json_by_schema,
)
from maxi_mlx.engine.grammar.compiler import CompiledGrammar, GrammarCompiler
from maxi_mlx.engine.grammar.matcher import Matcher
from tests.engine.grammar.answers import random_answer
from tests.engine.grammar.conftest import LoadCompiler


@pytest.fixture(scope="module")
def plain(compiler_for: LoadCompiler) -> GrammarCompiler:
    return compiler_for("qwen3")


def compiled(compiler: GrammarCompiler, node: Node) -> CompiledGrammar:
    return compiler.compile(Constraint(node=node, param="field"))


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    matcher = Matcher(grammar, max_tokens=10_000)
    token_ids = grammar.tokenizer.spell(list(text.encode()))
    assert token_ids is not None
    return matcher.state.consume_tokens(token_ids) and matcher.is_accepting


MATHS = """
root ::= sum  # a comment
sum  ::= sum "+" term |
         term
term ::= [0-9]+ | "(" sum ")" | "\\u03c0"
"""

TEXTS = [
    pytest.param(Pattern(r"[a-c]{2}\d"), ["ab1", "cc9"], ["ab", "ad1", "ab12"], id="regex"),
    pytest.param(Pattern(r"\d[^\w]"), ["1-", "2é"], ["١-", "1a"], id="digits and letters"),
    pytest.param(Pattern(r"a/b\n"), ["a/b\n"], ["a\\/b\n"], id="regex with a slash"),
    pytest.param(
        any_of_texts(["yes", "no", 'a"b\n', ""]), ["yes", 'a"b\n', ""], ["ye"], id="choice"
    ),
    pytest.param(any_of_texts(["<|im_end|>"]), ["<|im_end|>"], ["x"], id="a token's name as text"),
    pytest.param(
        Lark('start: "a" b+\nb: "b" | %json {"type": "boolean"}'),
        ["abb", "atrue"],
        ["a"],
        id="lark",
    ),
    pytest.param(Gbnf(MATHS), ["1+(2+π)", "π"], ["1+", "()"], id="gbnf"),
    pytest.param(
        Gbnf('root ::= [^a-c\\]\\n]{2} "é"?'), ["xyé", "-é"], ["ax", "x]"], id="gbnf sets"
    ),
    pytest.param(
        Gbnf("root ::= a-b\na-b ::= x_y\nx_y ::= . |"), ["z", ""], ["zz"], id="gbnf names"
    ),
    pytest.param(Gbnf('root ::= ("a" | "b"){2,3}'), ["ab", "bbb"], ["a"], id="gbnf repeats"),
    pytest.param(
        json_by_schema({"type": "object", "properties": {"b": {}, "a": {}}}),
        ['{"b":1,"a":2}', '{\n  "b" : [] ,\n  "c": null}'],
        ['{"a":1,"b":2}', '{"b":1,}'],
        id="json in the order of its properties",
    ),
    pytest.param(json_by_schema(True), ["[]", "3"], ["", "[,]"], id="any json"),
    pytest.param(
        json_by_schema({"type": "array", "uniqueItems": False}), ["[1]"], ["1"], id="idle"
    ),
    pytest.param(
        json_by_schema({"const": {"uniqueItems": False}}),
        ['{"uniqueItems":false}'],
        ["{}"],
        id="data",
    ),
    pytest.param(
        json_by_schema({"type": "string"}), ['"\\n"'], ['"\\ud800"', '"\n"'], id="escapes"
    ),
]


@pytest.mark.parametrize(("node", "good", "bad"), TEXTS)
def test_texts_that_fit_and_that_do_not(
    plain: GrammarCompiler, node: Node, good: list[str], bad: list[str]
) -> None:
    grammar = compiled(plain, node)
    for text in good:
        assert accepts(grammar, text), text
    for text in bad:
        assert not accepts(grammar, text), text
    for seed in range(3):
        answer = random_answer(grammar, max_tokens=30, seed=seed)
        assert answer.is_whole
        assert accepts(grammar, answer.text)


def _schema(**keywords: Any) -> Json:
    return json_by_schema({"properties": {"a": keywords}})


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


ENDLESS = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "label": {}},
    "required": ["label", "left"],
}

REFUSED = [
    pytest.param(
        _schema(uniqueItems=True), "'uniqueItems'.*properties.a.uniqueItems", id="keyword"
    ),
    pytest.param(json_by_schema({"not": {}}), "'not'", id="not"),
    pytest.param(json_by_schema({"if": {}, "then": {}}), "'if'|'then'", id="if"),
    pytest.param(_schema(contains={}), "'contains'", id="contains"),
    pytest.param(json_by_schema({"x-guidance": {"lenient": True}}), "x-guidance", id="options"),
    pytest.param(_schema(format="colour"), "'colour'.*properties.a.format", id="format"),
    pytest.param(_schema(type="strin"), "Invalid type: strin", id="type"),
    pytest.param(_schema(pattern="(?=a)b"), "look-around", id="look-around"),
    pytest.param(_schema(pattern="("), "unclosed group", id="broken pattern"),
    pytest.param(json_by_schema({"$ref": "#/nowhere"}), "/nowhere", id="no such ref"),
    pytest.param(json_by_schema({"$ref": "https://x.invalid/y"}), "not", id="remote ref"),
    pytest.param(json_by_schema({"$ref": "#"}), "holds itself", id="a ref to itself"),
    pytest.param(json_by_schema(ENDLESS), "holds itself", id="a tree without leaves"),
    pytest.param(json_by_schema({"enum": []}), "No JSON fits", id="nothing"),
    pytest.param(json_by_schema(False), "No JSON fits", id="false"),
    pytest.param(_schema(pattern=r"\bword\b"), r"\\b or \\B", id="word boundary"),
    pytest.param(_schema(pattern="a\\"), "lone backslash.*a.pattern", id="half an escape"),
    pytest.param(Pattern("a\\\\\\"), "lone backslash", id="half an escape in a regex"),
    pytest.param(json_by_schema({"oneOf": [{}, {"type": "string"}]}), "oneOf", id="oneOf"),
    pytest.param(json_by_schema(_nested(100)), "deep", id="deep"),
    pytest.param(Json("[" * 100_000), "no JSON", id="deep JSON"),
    pytest.param(Json("[]"), "must be an object", id="a list"),
    pytest.param(Json('{"enum": ["' + "x" * 300_000 + '"]}'), "the most is", id="large"),
    pytest.param(_schema(multipleOf=1_000_003), "multipleOf", id="large divisor"),
    pytest.param(
        json_by_schema({"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}),
        "multipleOf",
        id="divisors that multiply",
    ),
    pytest.param(_schema(multipleOf=0), "above 0", id="zero as divisor"),
    pytest.param(
        json_by_schema(
            {
                "allOf": [
                    {"anyOf": [{"properties": {f"p{i}_{j}": {}}} for j in range(6)]}
                    for i in range(8)
                ]
            }
        ),
        "combinations",
        id="combinations",
    ),
    pytest.param(Pattern("a(?=b)"), "look-around", id="regex look-around"),
    pytest.param(Pattern("["), "unclosed", id="broken regex"),
    pytest.param(Pattern("x" * 200_000), "the most is", id="large regex"),
    pytest.param(any_of_texts([]), "empty", id="no choice"),
    pytest.param(any_of_texts(["x"] * 10_001), "the most is", id="many choices"),
    pytest.param(any_of_texts(["\ud800"]), "surrogate", id="half a character"),
    pytest.param(Lark("start: nowhere"), 'unknown name: "nowhere".*line 1', id="lark name"),
    pytest.param(Lark("start: <nowhere>"), "special token", id="lark token"),
    pytest.param(Lark('start: %json {"not": {}}'), "'not'", id="a schema in lark"),
    pytest.param(Lark("start: %json nothing"), "Line 1.*%json", id="no schema in lark"),
    pytest.param(Lark('start: %json {"multipleOf": 1000003}'), "multipleOf", id="trap in lark"),
    pytest.param(Gbnf('x ::= "a"'), "'root'", id="gbnf without root"),
    pytest.param(Gbnf('root ::= "a"\n  nowhere'), "Line 2.*'nowhere'", id="gbnf name"),
    pytest.param(Gbnf('\nroot = "a"'), "Line 2", id="gbnf sign"),
    pytest.param(Gbnf('root ::= "a'), "Line 1", id="gbnf quote"),
    pytest.param(Gbnf("root ::= [z-a]"), "backwards", id="gbnf range"),
    pytest.param(Gbnf("root ::= []"), "empty set", id="gbnf empty set"),
    pytest.param(Gbnf('root ::= ("a"'), "'\\)' was expected", id="gbnf parenthesis"),
    pytest.param(Gbnf('root ::= "a" )'), "a rule", id="gbnf other parenthesis"),
    pytest.param(Gbnf("root ::= " + "(" * 5000), "parentheses", id="gbnf deep"),
    pytest.param(Gbnf("root ::= +"), "before it is missing", id="gbnf repeat of nothing"),
    pytest.param(Gbnf('root ::= "\\q"'), "no escape", id="gbnf escape"),
    pytest.param(Gbnf('root ::= "\\ud800"'), "no character", id="gbnf surrogate"),
    pytest.param(Gbnf('root ::= "a"\nroot ::= "b"'), "there already", id="gbnf twice"),
    pytest.param(Gbnf("root ::= root"), "No text fits", id="gbnf that never ends"),
]


@pytest.mark.parametrize(("node", "words"), REFUSED)
def test_what_is_refused_says_why(plain: GrammarCompiler, node: Node, words: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidRequest) as caught:
        compiled(plain, node)
    assert time.process_time() - started < 4
    assert re.search(words, caught.value.message, re.DOTALL), caught.value.message
    assert caught.value.param == "field"
    assert len(caught.value.message) < 600
    # Lines are the client's own, and so are those of a grammar alone.
    assert "(line" not in caught.value.message or isinstance(node, Lark)


@pytest.mark.parametrize("node", [Pattern(r"[^\x00-\x{10ffff}]"), json_by_schema(False)], ids=str)
@pytest.mark.parametrize("begin", [None, "<think>"])
def test_a_form_that_allows_nothing_is_refused_after_a_thought_too(
    plain: GrammarCompiler, node: Node, begin: str | None
) -> None:
    constraint = Constraint(node=node, param="field", thought_begin=begin, thought_end="</think>")
    with pytest.raises(InvalidRequest, match=r"No (text|JSON) fits"):
        plain.compile(constraint)


HEAVY = [
    pytest.param(Pattern("(a|b)*a(a|b){25}c"), id="exponential automaton"),
    pytest.param(Pattern(r"(\w{1,100}){1,100}"), id="counted words"),
    pytest.param(Pattern("((((a*)*)*)*)*b"), id="stars"),
    pytest.param(json_by_schema({"type": "string", "minLength": 5, "maxLength": 10**9}), id="long"),
    pytest.param(
        json_by_schema({"type": "array", "maxItems": 10**9, "items": {"type": "integer"}}),
        id="wide",
    ),
    pytest.param(json_by_schema({"enum": [f"x{i}" for i in range(5000)]}), id="many values"),
    pytest.param(any_of_texts([f"{i} or so" for i in range(5000)]), id="many choices"),
    pytest.param(Lark('start: (("a"?){50}){50}'), id="ambiguous"),
    pytest.param(Lark('start: a\na: a a | "x"'), id="left and right"),
    pytest.param(
        json_by_schema(
            {
                "$ref": "#/$defs/d0",
                "$defs": {
                    **{
                        f"d{i}": {
                            "anyOf": [
                                {"$ref": f"#/$defs/d{i + 1}"},
                                {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}},
                            ]
                        }
                        for i in range(50)
                    },
                    "d50": {"type": "string"},
                },
            }
        ),
        id="refs that double",
    ),
]


@pytest.mark.parametrize("node", HEAVY)
def test_heavy_grammars_cost_little_or_end(plain: GrammarCompiler, node: Node) -> None:
    started = time.process_time()
    grammar = compiled(plain, node)
    with suppress(InvalidRequest):  # it may turn out to be too much work on the way
        assert random_answer(grammar, max_tokens=60, seed=0).is_whole
    assert time.process_time() - started < 6


def test_a_grammar_whose_symbols_cost_much_is_not_searched_for_long(
    plain: GrammarCompiler,
) -> None:
    started = time.process_time()
    grammar = compiled(plain, json_by_schema({"type": "string", "pattern": "." * 5000}))
    assert time.process_time() - started < 8
    assert grammar.close is None
    assert not random_answer(grammar, max_tokens=60, seed=0).is_whole


def test_grammars_are_kept_by_what_they_say(plain: GrammarCompiler) -> None:
    first = compiled(plain, Literal("once"))
    assert compiled(plain, Literal("once")) is first
    assert plain.compile(Constraint(node=Literal("once"), param="other")) is not first
    for i in range(64):
        compiled(plain, Literal(f"other {i}"))
    assert compiled(plain, Literal("once")) is not first


def test_blanks_around_json(plain: GrammarCompiler) -> None:
    assert accepts(compiled(plain, BLANKS), "\n ")
    assert not accepts(compiled(plain, BLANKS), "\t")


def test_a_schema_keeps_its_words() -> None:
    schema = {"properties": {"z": {}, "a": {"const": "é"}}}
    assert json.loads(json_by_schema(schema).schema) == schema
