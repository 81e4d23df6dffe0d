"""Thoughts before the answer, tool calls within it, and how a budget's end is met."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from maxi_mlx.core.errors import InvalidRequest, MaxiError
from maxi_mlx.core.grammar import (
    Constraint,
    FreeText,
    Gbnf,
    InOrder,
    Lark,
    Literal,
    Node,
    Pattern,
    Repeated,
    Syntax,
    json_by_schema,
)
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.matcher import Matcher
from maxi_mlx.engine.grammar.tool_calls import calls_in_text, required_calls
from maxi_mlx.text.tool_calls import shape as shapes
from tests.engine.grammar.answers import Answer, allowed_tokens, random_answer
from tests.engine.grammar.conftest import LoadCompiler

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
CALL = InOrder(
    (Literal('{"name": "weather", "arguments": '), json_by_schema(SCHEMA), Literal("}!"))
)
TAGGED = InOrder((Syntax("<call>"), CALL))


@pytest.fixture(scope="module")
def plain(compiler_for: LoadCompiler) -> GrammarCompiler:
    return compiler_for("qwen3")


def answer_to(
    compiler: GrammarCompiler, node: Node, *, max_tokens: int, seed: int = 0, **thought: str
) -> Answer:
    grammar = compiler.compile(Constraint(node=node, param="tools", **thought))
    return random_answer(grammar, max_tokens=max_tokens, seed=seed)


@pytest.mark.parametrize("tag", ["</think>", "<|im_start|>", "</no token>"])
@pytest.mark.parametrize("max_tokens", [40, 120])
def test_a_thought_is_closed_in_time_for_the_answer(
    plain: GrammarCompiler, tag: str, max_tokens: int
) -> None:
    for seed in range(2):
        answer = answer_to(
            plain, json_by_schema(SCHEMA), max_tokens=max_tokens, seed=seed, thought_end=tag
        )
        thought, found, rest = answer.text.partition(tag)
        assert found
        assert thought
        jsonschema.validate(json.loads(rest), SCHEMA)
        assert answer.is_whole


@pytest.mark.parametrize(
    ("begun", "num_kept"), [("q", 0), ("<q", 0), ("<think>q", 60), ("<think>q</think>q", 0)]
)
def test_room_is_kept_for_what_follows_a_thought_while_there_is_one(
    plain: GrammarCompiler, begun: str, num_kept: int
) -> None:
    """Half of what there is; an answer that thought, or does not, may use all of it."""
    node = Pattern("<?q*!")
    grammar = plain.compile(
        Constraint(node=node, param="x", thought_begin="<think>", thought_end="</think>")
    )
    matcher, num_left = Matcher(grammar, max_tokens=120), 120
    letter = next(i for i in range(600) if grammar.tokenizer.data(i) == b"q")
    token_ids = grammar.tokenizer.spell(list(begun.encode()))
    assert token_ids is not None
    for token_id in token_ids:
        assert matcher.commit(token_id, num_left=num_left) == token_id
        num_left -= 1
    while matcher.forced(num_left) is None and matcher.commit(letter, num_left=num_left) == letter:
        num_left -= 1
    assert num_kept - 8 <= num_left <= num_kept + 8


def test_a_thought_that_the_prompt_did_not_begin_may_be_left_out(plain: GrammarCompiler) -> None:
    grammar = plain.compile(
        Constraint(node=Literal("yes"), param="x", thought_begin="<think>", thought_end="</think>")
    )
    for text, is_right in [
        ("yes", True),
        ("<think>hm</think>\n\nyes", True),
        ("hm</think>yes", False),
        ("<think>yes", False),
    ]:
        token_ids = grammar.tokenizer.spell(list(text.encode()))
        matcher = Matcher(grammar, max_tokens=100)
        assert matcher.state.consume_tokens(token_ids or []) is is_right or not matcher.is_accepting
        assert matcher.is_accepting is is_right


def test_calls_that_are_required(plain: GrammarCompiler) -> None:
    node = InOrder((TAGGED, Repeated(InOrder((Literal("\n"), TAGGED)))))
    for seed in range(5):
        answer = answer_to(plain, node, max_tokens=120, seed=seed)
        assert answer.is_whole
        for part in answer.text.removesuffix("!").split("!\n"):
            call = json.loads(part.removeprefix("<call>"))
            jsonschema.validate(call["arguments"], SCHEMA)


def test_what_begins_a_call_in_free_text_must_be_one(plain: GrammarCompiler) -> None:
    begun = InOrder((FreeText(until="<call>"), CALL))
    grammar = plain.compile(Constraint(node=InOrder((Repeated(begun), FreeText())), param="x"))
    begin = grammar.tokenizer.spell(list(b"Hello <b> <call>"))
    assert begin is not None
    for seed in range(5):
        answer = random_answer(grammar, max_tokens=len(begin) + 60, seed=seed, begin=begin)
        assert answer.is_whole
        call = answer.text.partition("<call>")[2].partition("}!")[0] + "}"
        jsonschema.validate(json.loads(call)["arguments"], SCHEMA)


def test_a_special_token_begins_a_call_as_a_token(plain: GrammarCompiler) -> None:
    node = InOrder((Syntax("<|im_start|>"), CALL))
    answer = answer_to(plain, node, max_tokens=90)
    names = plain.tokenizer.special_names
    assert answer.token_ids[0] == names["<|im_start|>"]


@dataclass(frozen=True)
class Shaped:
    shape: shapes.Shape
    good: list[str]
    bad: list[str]


def raw(**schema: Any) -> shapes.RawText:
    return shapes.RawText({"type": "string", **schema}, "</p>")


RAW = shapes.RawText({"type": "string", "maxLength": 5, "pattern": "^[a-z</]*$"}, "</p>")
SHAPES = {
    "raw text": Shaped(
        shapes.Sequence((shapes.Literal("<p>"), RAW, shapes.Literal("</p>"))),
        ["<p>abc</p>", "<p></</p>", "<p></p>"],
        ["<p>ABC</p>", "<p>abcdef</p>", "<p>a</p>b</p>"],
    ),
    "raw text that ends in a sign": Shaped(
        shapes.Sequence((raw(pattern=r"^\d+\$"), shapes.Literal("</p>"))),
        ["1$</p>", "12$ or so</p>"],
        ["1</p>", "a1$</p>"],
    ),
    "raw text of a format": Shaped(
        shapes.Sequence((raw(format="date"), shapes.Literal("</p>"))),
        ["2024-02-28</p>", "1999-12-31</p>"],
        ["2024-02-31</p>", "2024-13-01</p>", "now</p>", "</p>"],
    ),
    "raw text in lines": Shaped(
        shapes.Sequence(
            (
                shapes.Literal("<p>\n"),
                shapes.RawText({"type": "string"}, "</p>"),
                shapes.Literal("\n</p>x"),
            )
        ),
        ["<p>\na\n\n</p>x", "<p>\n\n</p>x"],
        ["<p>\na</p>x", "<p>\na</p>b\n</p>x"],
    ),
    "repeats": Shaped(
        shapes.Repeat(shapes.JsonBySchema({"type": "integer"}), 1, 2, ", "),
        ["1", "1, 22"],
        ["", "1,2", "1, 2, 3"],
    ),
    "optional repeats": Shaped(
        shapes.Repeat(shapes.Literal("a"), 0, None, "-"), ["", "a", "a-a-a"], ["-", "aa"]
    ),
    "choices": Shaped(
        shapes.AnyOf(
            (
                shapes.Literal("a"),
                shapes.Sequence((shapes.Literal("b"), RAW, shapes.Literal("</p>c"))),
            )
        ),
        ["a", "bx</p>c"],
        ["b", "ax"],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_calls(plain: GrammarCompiler, name: str) -> None:
    shaped = SHAPES[name]
    grammar = plain.compile(Constraint(node=required_calls(shaped.shape), param="tools"))
    for texts, is_right in [(shaped.good, True), (shaped.bad, False)]:
        for text in texts:
            matcher = Matcher(grammar, max_tokens=100)
            token_ids = grammar.tokenizer.spell(list(text.encode())) or []
            fits = matcher.state.consume_tokens(token_ids) and matcher.is_accepting
            assert fits is is_right, text


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"not": {"const": "x"}}, "'not'"),
        ({"format": "colour"}, "'colour' can't be enforced"),
        ({"pattern": "a\\"}, "lone backslash"),
        ({"pattern": "(?=a)"}, "look-around"),
    ],
    ids=str,
)
def test_raw_text_that_cannot_be_enforced(
    plain: GrammarCompiler, schema: dict[str, Any], words: str
) -> None:
    shape = shapes.Sequence((raw(**schema), shapes.Literal("</p>")))
    with pytest.raises(InvalidRequest, match=words):
        plain.compile(Constraint(node=required_calls(shape), param="tools"))


def test_calls_in_text_need_a_beginning() -> None:
    shape = shapes.Sequence((shapes.Literal("<a>"), shapes.Literal("b")))
    assert calls_in_text(shape, "<a>") == InOrder(
        (Repeated(InOrder((FreeText(until="<a>"), Syntax("b")))), FreeText())
    )
    assert calls_in_text(shape, "<other>") is None
    assert calls_in_text(shapes.AnyOf((shape, shapes.Literal("x"))), "<a>") is None


def test_the_last_tokens_are_forced(plain: GrammarCompiler) -> None:
    grammar = plain.compile(Constraint(node=Pattern("[a-z]+!"), param="x"))
    matcher = Matcher(grammar, max_tokens=3)
    assert matcher.forced(3) is None
    letter = next(i for i in range(600) if grammar.tokenizer.data(i) == b"q")
    assert matcher.commit(letter, num_left=3) == letter
    assert matcher.commit(letter, num_left=2) == letter
    forced = matcher.forced(1)
    assert forced is not None
    assert allowed_tokens(matcher, 1) == [forced]
    assert grammar.tokenizer.data(forced) == b"!"
    # Whatever was drawn, the end comes.
    assert matcher.commit(letter, num_left=1) == forced
    assert matcher.is_complete
    assert matcher.is_accepting


@pytest.mark.parametrize(
    "node",
    [
        Gbnf('root ::= [^#]* "###" [0-9] "END"'),
        Lark('start: text "Z" | "go on: " text "Y"\ntext[suffix="x"]: /.*/'),
    ],
    ids=["gbnf", "lark"],
)
def test_the_texts_of_a_grammar_end_what_is_free_in_it(plain: GrammarCompiler, node: Node) -> None:
    for seed in range(5):
        assert answer_to(plain, node, max_tokens=40, seed=seed).is_whole


def test_a_token_that_cannot_come_is_an_error(plain: GrammarCompiler) -> None:
    grammar = plain.compile(Constraint(node=Literal("yes"), param="x"))
    letter = next(i for i in range(600) if grammar.tokenizer.data(i) == b"q")
    with pytest.raises(MaxiError, match="does not fit"):
        Matcher(grammar, max_tokens=1).commit(letter, num_left=1)


def test_rows_of_one_grammar_are_apart(plain: GrammarCompiler) -> None:
    grammar = plain.compile(Constraint(node=Pattern("ab|ba"), param="x"))
    first, second = Matcher(grammar, max_tokens=9), Matcher(grammar, max_tokens=9)
    a, b = (
        next(i for i in range(600) if grammar.tokenizer.data(i) == data) for data in (b"a", b"b")
    )
    first.commit(a, num_left=9)
    second.commit(b, num_left=9)
    assert b in allowed_tokens(first, 8)
    assert a not in allowed_tokens(first, 8)
    assert a in allowed_tokens(second, 8)


def test_a_row_that_is_read_anew_goes_on_where_it_was(plain: GrammarCompiler) -> None:
    grammar = plain.compile(Constraint(node=json_by_schema(SCHEMA), param="x"))
    token_ids = random_answer(grammar, max_tokens=60, seed=1).token_ids
    for place in (0, 5, len(token_ids) - 1):
        matcher = Matcher(grammar, max_tokens=60)
        matcher.replay(token_ids[:place])
        assert token_ids[place] in allowed_tokens(matcher, 60 - place)
        assert matcher.commit(token_ids[place], num_left=60 - place) == token_ids[place]
    with pytest.raises(MaxiError, match=r"no longer fits|doesn't satisfy"):
        Matcher(grammar, max_tokens=60).replay(token_ids[3:])
