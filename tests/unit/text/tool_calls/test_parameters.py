"""A tool's arguments one by one, however its schema spreads them."""

from __future__ import annotations

from typing import Any

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool
from maxi_mlx.text.tool_calls import syntaxes
from maxi_mlx.text.tool_calls.parameters import (
    Unenforceable,
    alternatives,
    parameter_schema,
    resolved,
)
from tests.unit.text.tool_calls.reading import Called, read_every_way

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
POINT = {"type": "object", "properties": {"x": NUMBER, "y": NUMBER}, "required": ["x"]}
NAMED = {"properties": {"name": TEXT}, "required": ["name"]}
DEFS = {"$defs": {"point": POINT, "loop": {"$ref": "#/$defs/loop"}, "text": TEXT}}
X, Y, NAME = {"x": [NUMBER]}, {"y": [NUMBER]}, {"name": [TEXT]}


def _words(value: object) -> str | None:
    """Sets go unnamed: their order differs between processes, which name tests alike."""
    return str(value) if isinstance(value, dict) else None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, [({}, set())]),
        (POINT, [({**X, **Y}, {"x"})]),
        ({"$ref": "#/$defs/point", **DEFS}, [({**X, **Y}, {"x"})]),
        ({"allOf": [POINT, NAMED, True]}, [({**X, **Y, **NAME}, {"x", "name"})]),
        ({**POINT, "anyOf": [NAMED, {"required": ["y"]}]}, [
            ({**X, **Y, **NAME}, {"x", "name"}),
            ({**X, **Y}, {"x", "y"}),
        ]),
        ({"oneOf": [NAMED, {"type": "null"}, False]}, [(NAME, {"name"})]),
        ({"anyOf": [NAMED, {"properties": {"name": False}}]}, [(NAME, {"name"}), ({}, set())]),
        ({"required": ["z"]}, [({"z": [{}]}, {"z"})]),
        (
            {"properties": {"name": {"maxLength": 3}}, "allOf": [NAMED]},
            [({"name": [{"maxLength": 3}, TEXT]}, {"name"})],
        ),
        ({"minProperties": 1, "maxProperties": 1, **NAMED}, [(NAME, {"name"})]),
    ],
    ids=_words,
)  # fmt: skip
def test_alternatives(schema: dict[str, Any], expected: list[tuple[Any, Any]]) -> None:
    found = [(one.schemas, one.required) for one in alternatives(schema)]
    assert found == expected


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/$defs/loop", **DEFS}, "too deeply"),
        ({"$ref": "#/nowhere"}, "names nothing"),
        ({"$ref": "https://x.invalid/"}, "names nothing"),
        ({"allOf": [{"anyOf": [NAMED, POINT]}] * 6}, "more than 32"),
        ({"not": NAMED}, "'not'"),
        ({"anyOf": [{"if": NAMED}]}, "'if'"),
        ({"minProperties": 2, **NAMED}, "'minProperties'"),
        ({"maxProperties": 1, **POINT}, "'maxProperties'"),
        ({"anyOf": []}, "no arguments fit"),
        ({**NAMED, "properties": {"name": False}}, "no arguments fit"),
    ],
    ids=str,
)
def test_what_has_no_places_for_its_arguments(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(Unenforceable, match=words):
        alternatives(schema)
    with pytest.raises(InvalidRequest, match=words) as caught:
        syntaxes.QWEN3_CODER.grammar_parts([Tool(name="f", parameters=schema)])
    assert "'f'" in caught.value.message


@pytest.mark.parametrize(
    ("schema", "name", "expected"),
    [
        (None, "x", None),
        (POINT, "x", NUMBER),
        (POINT, "z", None),
        ({"$ref": "#/$defs/point", **DEFS}, "x", {**NUMBER, **DEFS}),
        ({"$ref": "#/$defs/loop", **DEFS}, "x", None),
        ({"$ref": "#/nowhere"}, "x", None),
        ({"anyOf": [POINT, {"properties": {"x": TEXT}}]}, "x", {"anyOf": [TEXT, NUMBER]}),
        ({"properties": {"x": {"$ref": "#/$defs/text"}}, **DEFS}, "x", {**TEXT, **DEFS}),
        ({"properties": 5, "anyOf": 6, "allOf": [7]}, "x", None),
    ],
    ids=str,
)
def test_the_schema_of_one(schema: Any, name: str, expected: Any) -> None:
    assert parameter_schema(schema, name) == expected


def test_a_reference_with_words_beside_it() -> None:
    schema = {"$ref": "#/$defs/text", "description": "A name."}
    assert resolved(schema, DEFS) == {**TEXT, "description": "A name.", **DEFS}
    # What both say something of stays as it is.
    schema = {"$ref": "#/$defs/text", "type": "string"}
    assert resolved(schema, DEFS) == {**schema, **DEFS}
    assert resolved(True, DEFS) is True


def test_a_text_behind_a_reference_is_read_as_one() -> None:
    parameters = {
        "$ref": "#/$defs/args",
        "$defs": {
            "args": {"type": "object", "properties": {"kind": {"$ref": "#/$defs/kind"}}},
            "kind": {"type": "string", "enum": ["1", "2"]},
        },
    }
    call = "<tool_call>\n<function=f>\n<parameter=kind>\n1\n</parameter>\n</function>\n</tool_call>"
    tools = (Tool(name="f", parameters=parameters),)
    told = read_every_way(syntaxes.QWEN3_CODER, call, tools=tools)
    assert told == [Called("f", '{"kind": "1"}', "new_0")]
