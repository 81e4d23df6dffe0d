"""Tools and the choice among them: the wire's forms, and what each mistake is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.openai import ChatCall, parse_chat
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool, ToolChoice

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}
WEATHER_TOOL = Tool(name="get_weather", description="The weather.", parameters=SCHEMA)
TOOLS = [
    {"type": "function", "function": WEATHER},
    {"type": "function", "function": {"name": "get_time"}},
]


def parse(**fields: Any) -> ChatCall:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return parse_chat(json.dumps(body).encode(), request_id="r")


def refusal_of(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


@pytest.mark.clients(35)
def test_tools_arrive() -> None:
    call = parse(tools=TOOLS)
    assert call.request.tools == (WEATHER_TOOL, Tool(name="get_time"))
    assert call.request.tool_choice == ToolChoice()
    assert call.request.parallel_tool_calls
    assert not call.legacy_functions


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": WEATHER},
        {"function": WEATHER},
        {"type": "function", **WEATHER},
        {"type": "function", "function": {**WEATHER, "strict": None, "unknown": 1}},
    ],
    ids=["chat", "no type", "responses", "nulls"],
)
@pytest.mark.clients(35, 43)
def test_forms_of_a_tool(tool: dict[str, Any]) -> None:
    assert parse(tools=[tool]).request.tools == (WEATHER_TOOL,)


def test_strict_and_parallel_arrive() -> None:
    request = parse(
        tools=[{"type": "function", "function": {"name": "f", "strict": True}}],
        parallel_tool_calls=False,
    ).request
    assert request.tools == (Tool(name="f", strict=True),)
    assert not request.parallel_tool_calls


NAMED = {"type": "function", "function": {"name": "get_time"}}


def allowed(mode: str | None, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize(
    ("wanted", "choice"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("required", ToolChoice(mode="required")),
        ("any", ToolChoice(mode="required")),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "required"}, ToolChoice(mode="required")),
        (NAMED, ToolChoice(mode="required", names=("get_time",))),
        ({"function": {"name": "get_time"}}, ToolChoice(mode="required", names=("get_time",))),
        (
            {"type": "function", "name": "get_time"},
            ToolChoice(mode="required", names=("get_time",)),
        ),
        (allowed("auto", "get_time"), ToolChoice(names=("get_time",))),
        (allowed(None, "get_time", "get_time"), ToolChoice(names=("get_time",))),
        (
            allowed("required", "get_time", "get_weather"),
            ToolChoice(mode="required", names=("get_time", "get_weather")),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_time"}],
            },
            ToolChoice(mode="required", names=("get_time",)),
        ),
    ],
    ids=str,
)
@pytest.mark.clients(13)
def test_choices(wanted: Any, choice: ToolChoice) -> None:
    request = parse(tools=TOOLS, tool_choice=wanted).request
    assert request.tool_choice == choice
    assert len(request.tools) == 2


@pytest.mark.parametrize("choice", ["none", {"type": "none"}])
def test_tools_that_may_not_be_used_are_left_out(choice: Any) -> None:
    tools = [*TOOLS, *TOOLS, {"type": "web_search"}]
    assert parse(tools=tools, tool_choice=choice).request.tools == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": None, "tool_choice": "auto"},
        {"tool_choice": "none", "parallel_tool_calls": False},
        {"functions": [], "function_call": "auto"},
        {"functions": [WEATHER], "function_call": "none"},
    ],
    ids=str,
)
@pytest.mark.clients(35)
def test_no_tools_is_a_plain_request(fields: dict[str, Any]) -> None:
    assert parse(**fields) == parse()


def test_functions_are_tools_of_one_call() -> None:
    call = parse(functions=[WEATHER], function_call={"name": "get_weather"})
    assert call.legacy_functions
    assert call.request.tools == (WEATHER_TOOL,)
    assert call.request.tool_choice == ToolChoice(mode="required", names=("get_weather",))
    assert not call.request.parallel_tool_calls
    assert parse(functions=[WEATHER]).request.tool_choice == ToolChoice()
    assert parse(functions=[WEATHER], tool_choice="auto") == parse(functions=[WEATHER])
    assert parse(tools=TOOLS, function_call="auto") == parse(tools=TOOLS)


def tool(**function: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **function}}]}


F = "tools[0].function"
P = f"{F}.parameters"
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": {}}, "tools", "must be a list"),
    ({"tools": ["f"]}, "tools[0]", "must be an object, not a string"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'web_search'"),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type", "'custom'"),
    ({"tools": [{"type": "function"}]}, F, "is missing"),
    (tool(name=None), f"{F}.name", "is missing"),
    (tool(name=""), f"{F}.name", "is missing"),
    (tool(name="a b"), f"{F}.name", "not 'a b'"),
    (tool(name="é"), f"{F}.name", "letters, digits"),
    (tool(name="f" * 65), f"{F}.name", "1 to 64"),
    (tool(name=5), f"{F}.name", "must be a string"),
    (tool(description=5), f"{F}.description", "must be a string"),
    (tool(strict="yes"), f"{F}.strict", "true or false"),
    (tool(parameters=[]), P, "must be an object"),
    (tool(parameters={"type": "array"}), f"{P}.type", "must be 'object', not 'array'"),
    (tool(parameters={"type": "thing"}), f"{P}.type", "must be one of object, array"),
    (tool(parameters={"properties": []}), f"{P}.properties", "must be an object"),
    (tool(parameters={"properties": {"a": 5}}), f"{P}.properties.a", "a schema"),
    (
        tool(parameters={"properties": {"a": {"type": ["string", "any"]}}}),
        f"{P}.properties.a.type",
        "not 'any'",
    ),
    (tool(parameters={"required": "a"}), f"{P}.required", "a list of strings"),
    (tool(parameters={"anyOf": {}}), f"{P}.anyOf", "a list of schemas"),
    (tool(parameters={"items": [{"enum": []}]}), f"{P}.items[0].enum", "at least one"),
    (tool(parameters={"$defs": {"x": {"$ref": 5}}}), f"{P}.$defs.x.$ref", "a string"),
    (tool(parameters={"not": {"maximum": "9"}}), f"{P}.not.maximum", "a number"),
    (tool(parameters={"not": {"minItems": -1}}), f"{P}.not.minItems", "from 0"),
    ({"tools": [*TOOLS, TOOLS[0]]}, "tools[2].function.name", "an earlier tool's"),
    ({"tools": TOOLS, "functions": [WEATHER]}, "functions", "the older name"),
    ({"functions": [WEATHER], "tool_choice": "none"}, "tool_choice", "send 'function_call'"),
    ({"functions": [WEATHER], "tool_choice": NAMED}, "tool_choice", "send 'function_call'"),
    ({"tools": TOOLS, "function_call": "none"}, "function_call", "send 'tool_choice'"),
    ({"tools": TOOLS, "function_call": {"name": "get_time"}}, "function_call", "'tool_choice'"),
    ({"functions": [{}]}, "functions[0].name", "is missing"),
    ({"functions": [WEATHER, WEATHER]}, "functions[1].name", "an earlier tool's"),
    ({"functions": [WEATHER], "function_call": "required"}, "function_call", "'required'"),
    ({"functions": [WEATHER], "function_call": {"name": "x"}}, "function_call.name", "'x'"),
    ({"functions": [WEATHER], "function_call": {}}, "function_call.name", "is missing"),
    ({"function_call": {"name": "x"}}, "function_call", "no 'functions'"),
    ({"tools": TOOLS, "tool_choice": "always"}, "tool_choice", "'always'"),
    ({"tools": TOOLS, "tool_choice": 5}, "tool_choice", "must be a string or an object"),
    ({"tools": TOOLS, "tool_choice": {}}, "tool_choice.type", "not 'None'"),
    ({"tools": TOOLS, "tool_choice": {"type": "custom"}}, "tool_choice.type", "'custom'"),
    ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice.name", "is missing"),
    (
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}},
        "tool_choice.function.name",
        "'x', which is none",
    ),
    (
        {"tools": TOOLS, "tool_choice": allowed("none", "get_time")},
        "tool_choice.allowed_tools.mode",
        "'none'",
    ),
    ({"tools": TOOLS, "tool_choice": allowed("auto")}, "tool_choice.allowed_tools.tools", "empty"),
    (
        {"tools": TOOLS, "tool_choice": allowed("auto", "x")},
        "tool_choice.allowed_tools.tools[0].function.name",
        "'x'",
    ),
    ({"tool_choice": "required"}, "tool_choice", "no 'tools'"),
    ({"tool_choice": NAMED, "tools": []}, "tool_choice", "no 'tools'"),
    ({"parallel_tool_calls": "no", "tools": TOOLS}, "parallel_tool_calls", "true or false"),
]


@pytest.mark.parametrize(
    ("fields", "param", "words"), MISTAKES, ids=[f"{p}-{w[:20]}" for _, p, w in MISTAKES]
)
@pytest.mark.clients(29, 40)
def test_a_mistake_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    error = refusal_of(**fields)
    assert (error.status, error.param) == (400, param)
    assert words in error.message
    assert len(error.message) < 400


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def test_a_schema_may_nest_only_so_deep() -> None:
    assert parse(**tool(parameters=nested(99))).request.tools
    error = refusal_of(**tool(parameters=nested(150)))
    assert error.param == P
    assert "nests more than 100" in error.message
