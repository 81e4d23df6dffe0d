"""What a grammar would make of each syntax is read back as calls that fit the tools' schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool
from maxi_mlx.text.tool_calls import ToolSyntax, syntaxes
from maxi_mlx.text.tool_calls.shape import (
    AnyOf,
    JsonBySchema,
    Literal,
    RawText,
    Repeat,
    Sequence,
    Shape,
)
from tests.unit.text.tool_calls.reading import CLOCK, WEATHER, Called, joined, pieces_of

NESTED: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": {"type": "string"}},
        "where": {"$ref": "#/$defs/place"},
        "text": {"type": "string"},
    },
    "required": ["lines", "text"],
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
}
# Values that may be of several types, and texts that may only be some.
MIXED: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "kind": {"const": "a b"},
        "mode": {"anyOf": [{"const": "x"}, {"type": "string", "enum": ["y", "z"]}]},
        "size": {"enum": ["S", 3, None, True]},
        "place": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
        "where": {"anyOf": [{"type": "object", "properties": {}}, {"const": "here"}]},
    },
    "required": ["name", "kind", "mode"],
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
}
TOOLS = (
    Tool(name="mixed", parameters=MIXED),
    Tool(name="get_weather", parameters=WEATHER),
    Tool(name="get_time", parameters=CLOCK),
    Tool(name="write", parameters=NESTED),
    Tool(name="stop"),
)
TAGS = {tag.strip() for syntax in syntaxes.ALL for tag in syntax.tags if tag.strip()}
WORDS = st.text(max_size=6) | st.sampled_from(["\n", "\\", '"', "'", "</", "<b>", "{", "]]", ", "])
TEXTS = (
    st.lists(WORDS, max_size=4).map("".join).filter(lambda text: not any(t in text for t in TAGS))
)


def values(schema: Any) -> st.SearchStrategy[Any]:
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(values(option) for option in schema["anyOf"]))
    if "$ref" in schema:
        return values(NESTED["$defs"]["place"])
    match schema.get("type"):
        case "string":
            return TEXTS
        case "integer":
            return st.integers(-5, 5)
        case "number":
            return st.floats(-1e6, 1e6)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case _:
            properties = schema.get("properties", {})
            required = set(schema.get("required", ()))
            return st.fixed_dictionaries(
                {name: values(properties[name]) for name in properties if name in required},
                optional={
                    name: values(properties[name]) for name in properties if name not in required
                },
            )


def drawn(shape: Shape, data: st.DataObject) -> str:
    match shape:
        case Literal(text):
            return text
        case JsonBySchema(schema):
            value = data.draw(values(_resolved(schema)))
            return json.dumps(value, ensure_ascii=data.draw(st.booleans()))
        case RawText(schema, until):
            text: str = data.draw(values(schema))
            assert until not in text
            return text
        case AnyOf(choices):
            return drawn(data.draw(st.sampled_from(choices)), data)
        case Sequence(parts):
            return "".join(drawn(part, data) for part in parts)
        case Repeat(part, least, most, separator):
            count = data.draw(st.integers(least, least + 2 if most is None else most))
            return separator.join(drawn(part, data) for _ in range(count))
        case _:
            assert_never(shape)


def _resolved(schema: Any) -> Any:
    if "$ref" in schema:
        return schema["$defs"][schema["$ref"].rpartition("/")[2]]
    return {
        **schema,
        "properties": {
            name: NESTED["$defs"]["place"] if "$ref" in inner else inner
            for name, inner in schema.get("properties", {}).items()
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("syntax", syntaxes.ALL, ids=lambda syntax: syntax.name)
@settings(max_examples=25)
@given(data=st.data())
def test_what_is_written_by_the_shape_is_read_back(syntax: ToolSyntax, data: st.DataObject) -> None:
    is_parallel = syntax is not syntaxes.HARMONY and data.draw(st.booleans())
    text = drawn(syntax.grammar_parts(TOOLS, is_parallel=is_parallel), data)
    size = data.draw(st.sampled_from([1, 2, 3, 1000]))
    told = joined(pieces_of(syntax, text, size=size, tools=TOOLS))
    assert told
    for call in told:
        assert isinstance(call, Called), text
        assert call.is_whole, text
        schema = next(tool for tool in TOOLS if tool.name == call.name).parameters
        jsonschema.validate(json.loads(call.arguments), schema or {"type": "object"})


@pytest.mark.parametrize(
    ("syntax", "name"),
    [
        (syntaxes.QWEN3_CODER, "two words"),
        (syntaxes.MINIMAX_M2, 'a "quoted" word'),
        (syntaxes.GLM47, "a<b"),
        (syntaxes.PYTHONIC, "with-dash"),
        (syntaxes.GEMMA4, "a:b"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_names_that_have_no_place_in_a_call(syntax: ToolSyntax, name: str) -> None:
    tool = Tool(name="f", parameters={"type": "object", "properties": {name: {}}})
    with pytest.raises(InvalidRequest, match="another name") as caught:
        syntax.grammar_parts([tool])
    assert caught.value.param == "tools"
    syntaxes.JSON_TOOLS.grammar_parts([tool])


def test_a_named_tool_and_no_other() -> None:
    shape = syntaxes.JSON_TOOLS.grammar_parts(TOOLS[1:2], is_parallel=False)
    head, json_part, tail = shape.parts[1].parts  # type: ignore[union-attr]
    assert head == Literal('<tool_call>\n{"name": "get_weather", "arguments": ')
    assert json_part == JsonBySchema(WEATHER)
    assert tail == Literal("}\n</tool_call>")


def test_which_syntaxes_write_json() -> None:
    names = {syntax.name for syntax in syntaxes.ALL if syntax.writes_json}
    assert names == {"json_tools", "kimi_k2", "mistral", "mistral_list", "llama3", "harmony"}
