"""The form of an answer: all names for it on the wire, and what each mistake is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from maxi_mlx.api.openai import ChatCall, CompletionCall, parse_chat, parse_completion
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import (
    ANY_JSON_OBJECT,
    Constraint,
    Gbnf,
    Lark,
    Node,
    Pattern,
    any_of_texts,
    json_by_schema,
)

BOTH: dict[str, Any] = {"prompt": "p", "messages": [{"role": "user", "content": "hi"}]}
ENDPOINTS = pytest.mark.parametrize("parse", [parse_chat, parse_completion])
Parse = Callable[..., ChatCall | CompletionCall]

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}}
NESTED = {"name": "x", "schema": SCHEMA, "strict": True}
BY_SCHEMA = json_by_schema(SCHEMA)


def constraint_of(parse: Parse, **fields: Any) -> Constraint | None:
    body = json.dumps({**BOTH, **fields}).encode()
    return parse(body, request_id="r").request.constraint


FORMS: list[tuple[dict[str, Any], Node, str]] = [
    ({"response_format": {"type": "json_object"}}, ANY_JSON_OBJECT, "response_format"),
    (
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        BY_SCHEMA,
        "response_format.schema",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": NESTED}},
        BY_SCHEMA,
        "response_format.json_schema.schema",
    ),
    (
        {"response_format": {"type": "json_schema", "schema": SCHEMA}},
        BY_SCHEMA,
        "response_format.schema",
    ),
    ({"json_schema": SCHEMA}, BY_SCHEMA, "json_schema"),
    ({"json_schema": True}, json_by_schema(True), "json_schema"),
    ({"guided_json": SCHEMA}, BY_SCHEMA, "guided_json"),
    ({"guided_json": json.dumps(SCHEMA)}, BY_SCHEMA, "guided_json"),
    ({"regex": "a+"}, Pattern("a+"), "regex"),
    ({"guided_regex": "a+"}, Pattern("a+"), "guided_regex"),
    ({"choice": ["a", "b", "a"]}, any_of_texts(["a", "b"]), "choice"),
    ({"guided_choice": ["a"]}, any_of_texts(["a"]), "guided_choice"),
    ({"grammar": 'root ::= "a"'}, Gbnf('root ::= "a"'), "grammar"),
    ({"grammar": 'start: "a"'}, Lark('start: "a"'), "grammar"),
    ({"guided_grammar": 'start: "a"'}, Lark('start: "a"'), "guided_grammar"),
    ({"structured_outputs": {"json": SCHEMA}}, BY_SCHEMA, "structured_outputs.json"),
    ({"structured_outputs": {"regex": "a"}}, Pattern("a"), "structured_outputs.regex"),
    ({"structured_outputs": {"choice": ["a"]}}, any_of_texts(["a"]), "structured_outputs.choice"),
    ({"structured_outputs": {"grammar": "x: y"}}, Lark("x: y"), "structured_outputs.grammar"),
    (
        {"structured_outputs": {"json_object": True}},
        ANY_JSON_OBJECT,
        "structured_outputs.json_object",
    ),
]


@ENDPOINTS
@pytest.mark.parametrize(("fields", "node", "param"), FORMS, ids=[str(row[0]) for row in FORMS])
@pytest.mark.clients(36)
def test_forms(parse: Parse, fields: dict[str, Any], node: Node, param: str) -> None:
    assert constraint_of(parse, **fields) == Constraint(node=node, param=param)


@ENDPOINTS
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": {"type": "text"}},
        {"response_format": None, "grammar": None},
        {"structured_outputs": {}},
        {"structured_outputs": {"json_object": False, "backend": "x"}},
    ],
    ids=str,
)
def test_no_form(parse: Parse, fields: dict[str, Any]) -> None:
    assert constraint_of(parse, **fields) is None


def test_the_responses_api_has_the_schema_beside_the_type() -> None:
    text = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}
    body = json.dumps({"input": "hi", "text": text}).encode()
    found = parse_chat(body, request_id="r").request.constraint
    assert found == Constraint(node=BY_SCHEMA, param="text.format.schema")


FORMAT = "response_format"
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({FORMAT: "json"}, FORMAT, "must be an object"),
    ({FORMAT: {}}, f"{FORMAT}.type", "is missing"),
    ({FORMAT: {"type": "yaml"}}, f"{FORMAT}.type", "'yaml'"),
    ({FORMAT: {"type": "json_schema"}}, f"{FORMAT}.json_schema.schema", "is missing"),
    (
        {FORMAT: {"type": "json_schema", "json_schema": {"name": "x"}}},
        f"{FORMAT}.json_schema.schema",
        "is missing",
    ),
    (
        {FORMAT: {"type": "json_schema", "json_schema": {"schema": []}}},
        f"{FORMAT}.json_schema.schema",
        "must be true or false or an object",
    ),
    (
        {FORMAT: {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}},
        f"{FORMAT}.json_schema.schema.type",
        "'nonsense'",
    ),
    ({"guided_json": "{"}, "guided_json", "not one of JSON"),
    ({"guided_json": "[1]"}, "guided_json", "a schema"),
    ({"guided_json": '{"a": NaN}'}, "guided_json", "not one of JSON"),
    ({"json_schema": {"required": [1]}}, "json_schema.required", "a list of strings"),
    ({"regex": ""}, "regex", "empty"),
    ({"regex": ["a"]}, "regex", "must be a string"),
    ({"choice": []}, "choice", "empty"),
    ({"choice": ["a", ""]}, "choice[1]", "empty"),
    ({"choice": "a"}, "choice", "must be a list"),
    ({"choice": ["a"] * 4097}, "choice", "at most 4096"),
    ({"grammar": " \n"}, "grammar", "empty"),
    ({"structured_outputs": []}, "structured_outputs", "must be an object"),
    (
        {"structured_outputs": {"structural_tag": "x"}},
        "structured_outputs.structural_tag",
        "is not served",
    ),
    ({"regex": "a", "choice": ["a"]}, "choice", "'choice' and 'regex' both say"),
    (
        {FORMAT: {"type": "json_object"}, "grammar": "start: X"},
        "grammar",
        "'response_format' both say",
    ),
    (
        {"structured_outputs": {"regex": "a", "grammar": "b: c"}},
        "structured_outputs.grammar",
        "both say",
    ),
]


@ENDPOINTS
@pytest.mark.parametrize(
    ("fields", "param", "words"), MISTAKES, ids=[f"{p}-{w[:20]}" for _, p, w in MISTAKES]
)
@pytest.mark.clients(29, 36, 40)
def test_a_mistake_is_named(parse: Parse, fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        constraint_of(parse, **fields)
    assert caught.value.param == param
    assert words in caught.value.message
    assert len(caught.value.message) < 400


@ENDPOINTS
@pytest.mark.parametrize("keyword", ["enum", "default", "const"])
def test_values_in_a_schema_may_not_nest_without_end(parse: Parse, keyword: str) -> None:
    value = "[" * 900 + "]" * 900
    body = json.dumps({**BOTH, "json_schema": {}}).encode()
    body = body.replace(b'"json_schema": {}', f'"json_schema": {{"{keyword}":[{value}]}}'.encode())
    try:
        outcome = repr(parse(body, request_id="r").request.constraint)
    except InvalidRequest as error:
        outcome = error.message
    # Where the limit lies depends on how deep the caller's own stack is.
    assert value in outcome or "deeply" in outcome
