"""Bodies of the Responses API to requests: what becomes of every field, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.responses import ResponseCall, parse_response, read_response
from maxi_mlx.api.responses.fields import RESPONSE_FIELDS
from maxi_mlx.api.responses.names import WireName
from maxi_mlx.api.responses.schema import ResponseBody
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import Json
from maxi_mlx.core.request import ChatPrompt, Message, ToolCall

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
AGENTS = {"type": "namespace", "name": "agents", "description": "", "tools": [WEATHER, PATCH]}
SEARCH = {"type": "web_search", "external_web_access": True}


def parsed(history: Any = (), referenced: Any = None, **fields: Any) -> ResponseCall:
    body = {"model": "m", "input": "hi", **fields}
    asked = read_response(json.dumps(body).encode())
    return parse_response(asked, request_id="req-00", history=history, referenced=referenced or {})


def prompt(call: ResponseCall) -> ChatPrompt:
    [found] = call.request.prompts
    assert isinstance(found, ChatPrompt)
    return found


def said(call: ResponseCall) -> list[tuple[str, str | None]]:
    return [(message.role, message.text) for message in prompt(call).messages]


CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
USER = {"role": "user", "content": "q"}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}
SUMMARY = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}
TURN = Message(role="user", text="q")
CALLED = Message(role="assistant", text=None, tool_calls=(ToolCall("c1", "f", "{}"),))
TOLD = Message(role="tool", text="42", tool_call_id="c1")

INPUTS: dict[str, tuple[Any, list[Message]]] = {
    "text": ("q", [TURN]),
    "empty text": ("", [Message(role="user", text="")]),
    "message": ([USER], [TURN]),
    "parts": (
        [{**USER, "type": "message", "content": [{"type": "input_text", "text": "q"}]}],
        [TURN],
    ),
    "developer": (
        [{"role": "developer", "content": "d"}, USER],
        [Message(role="system", text="d"), TURN],
    ),
    "call and result": ([USER, CALL, RESULT], [TURN, CALLED, TOLD]),
    "two calls": (
        [USER, CALL, {**CALL, "call_id": "c2"}],
        [
            TURN,
            Message(
                role="assistant",
                text=None,
                tool_calls=(ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")),
            ),
        ],
    ),
    "words before a call": (
        [USER, {"role": "assistant", "content": "w"}, CALL],
        [TURN, Message(role="assistant", text="w", tool_calls=CALLED.tool_calls)],
    ),
    "a result in parts": (
        [USER, CALL, {**RESULT, "output": [{"type": "input_text", "text": "42"}]}],
        [TURN, CALLED, TOLD],
    ),
    "thought and call": (
        [USER, THOUGHT, CALL, RESULT],
        [
            TURN,
            Message(role="assistant", text=None, reasoning="t", tool_calls=CALLED.tool_calls),
            TOLD,
        ],
    ),
    "summary and words": (
        [USER, SUMMARY, {"role": "assistant", "content": "w"}],
        [TURN, Message(role="assistant", text="w", reasoning="s")],
    ),
    "a thought nobody can read": (
        [USER, {"type": "reasoning", "summary": [], "encrypted_content": "xyz"}],
        [TURN],
    ),
    "a namespace": (
        [USER, {**CALL, "namespace": "agents"}],
        [
            TURN,
            Message(role="assistant", text=None, tool_calls=(ToolCall("c1", "agents__f", "{}"),)),
        ],
    ),
    "a custom call": (
        [
            USER,
            {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "42"},
        ],
        [
            TURN,
            Message(
                role="assistant", text=None, tool_calls=(ToolCall("c1", "f", '{"input":"x"}'),)
            ),
            TOLD,
        ],
    ),
}


@pytest.mark.clients(32, 83, 85)
@pytest.mark.parametrize(("given", "messages"), INPUTS.values(), ids=INPUTS)
def test_input(given: Any, messages: list[Message]) -> None:
    assert list(prompt(parsed(input=given)).messages) == messages


def test_instructions_come_first_and_history_before_the_input() -> None:
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    ]
    call = parsed(history, instructions="be brief", input="b")
    assert said(call) == [("system", "be brief"), ("user", "a"), ("user", "b")]
    # After a previous response there need be nothing more.
    assert said(parsed(history, input=None)) == [("user", "a")]


def test_a_reference_stands_for_its_item() -> None:
    kept = {"type": "message", "id": "msg_1", "role": "user", "content": "old"}
    for reference in ({"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}):
        body = {"input": [reference, USER]}
        assert read_response(json.dumps(body).encode()).references == ("msg_1",)
        call = parsed(referenced={"msg_1": kept}, **body)
        assert said(call) == [("user", "old"), ("user", "q")]
        assert [item["id"] for item in call.input_items] == ["msg_1", "msg_00i1"]


def test_items_are_kept_complete() -> None:
    given = [USER, {"role": "assistant", "content": "w"}, CALL, RESULT, SUMMARY]
    kept = parsed(input=given).input_items
    assert [(item["type"], item["id"]) for item in kept] == [
        ("message", "msg_00i0"),
        ("message", "msg_00i1"),
        ("function_call", "fc_00i2"),
        ("function_call_output", "fco_00i3"),
        ("reasoning", "rs_00i4"),
    ]
    assert kept[0]["content"] == [{"type": "input_text", "text": "q"}]
    assert kept[1]["content"][0]["type"] == "output_text"
    assert all(item["status"] == "completed" for item in kept[:4])
    # What is kept can be read again.
    again = parsed(history=kept)
    assert prompt(again).messages[:-1] == prompt(parsed(input=given)).messages


# -- tools ---------------------------------------------------------------------------------------


@pytest.mark.clients(84)
def test_tools_of_every_type_that_a_client_runs() -> None:
    call = parsed(tools=[WEATHER, PATCH, AGENTS, SEARCH])
    names = ["get_weather", "apply_patch", "agents__get_weather", "agents__apply_patch"]
    assert [tool.name for tool in prompt(call).tools] == names
    assert dict(call.names) == {
        "get_weather": WireName(name="get_weather"),
        "apply_patch": WireName(name="apply_patch", is_custom=True),
        "agents__get_weather": WireName(name="get_weather", namespace="agents"),
        "agents__apply_patch": WireName(name="apply_patch", namespace="agents", is_custom=True),
    }
    # The response repeats those in force, and no web search.
    assert [tool["type"] for tool in call.asked["tools"]] == ["function", "custom", "namespace"]
    assert call.asked["tools"][0]["strict"] is False


def test_a_custom_tools_grammar() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
    [tool] = prompt(parsed(tools=[{**PATCH, "format": form}])).tools
    assert (tool.description or "").endswith('grammar:\nstart: "a"')
    [tool] = prompt(parsed(tools=[{**PATCH, "format": {**form, "syntax": "regex"}}])).tools
    assert tool.parameters is not None
    assert tool.parameters["properties"]["input"]["pattern"] == '^(?:start: "a")$'
    assert tool.strict


CHOICES: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "absent": (None, "auto", ()),
    "auto": ("auto", "auto", ()),
    "required": ("required", "required", ()),
    "function": ({"type": "function", "name": "get_weather"}, "required", ("get_weather",)),
    "custom": ({"type": "custom", "name": "apply_patch"}, "required", ("apply_patch",)),
    "namespace": (
        {"type": "function", "name": "get_weather", "namespace": "agents"},
        "required",
        ("agents__get_weather",),
    ),
    "allowed": (
        {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "custom", "name": "apply_patch"}],
        },
        "auto",
        ("apply_patch",),
    ),
}


@pytest.mark.clients(13)
@pytest.mark.parametrize(("wanted", "mode", "names"), CHOICES.values(), ids=CHOICES)
def test_tool_choice(wanted: Any, mode: str, names: tuple[str, ...]) -> None:
    call = parsed(tools=[WEATHER, PATCH, AGENTS], tool_choice=wanted)
    assert (call.request.tool_choice.mode, call.request.tool_choice.names) == (mode, names)
    assert call.asked["tool_choice"] == (wanted or "auto")


def test_with_none_the_model_is_not_told_of_tools() -> None:
    call = parsed(tools=[WEATHER], tool_choice="none")
    assert prompt(call).tools == ()
    assert len(call.asked["tools"]) == 1


# -- options -------------------------------------------------------------------------------------


def test_options_of_generation() -> None:
    call = parsed(
        max_output_tokens=7,
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        seed=1,
        stop=["x"],
        parallel_tool_calls=False,
        reasoning={"effort": "high"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        stream=True,
        truncation="auto",
    )
    request = call.request
    assert (request.max_tokens, request.stop, request.parallel_tool_calls) == (7, ("x",), False)
    assert (request.sampling.temperature, request.sampling.top_k) == (0.5, 3)
    assert request.constraint is not None
    assert request.constraint.node == Json('{"type": "object"}')
    assert prompt(call).template_kwargs == {"reasoning_effort": "high"}
    assert (call.stream, call.truncates, call.stores) == (True, True, True)
    assert call.asked["text"]["format"]["name"] == "n"


@pytest.mark.parametrize(
    ("fields", "top_logprobs"),
    [
        ({}, None),
        ({"include": ["message.output_text.logprobs"]}, 0),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 2}, 2),
        ({"top_logprobs": 2}, 2),
        ({"top_logprobs": 0}, None),
        ({"include": ["reasoning.encrypted_content"]}, None),
    ],
)
def test_logprobs(fields: dict[str, Any], top_logprobs: int | None) -> None:
    assert parsed(**fields).request.top_logprobs == top_logprobs


@pytest.mark.parametrize(
    ("reasoning", "sends_summary"),
    [
        (None, False),
        ({"summary": "auto"}, True),
        ({"generate_summary": "detailed"}, True),
        ({"summary": "none"}, False),
        ({"effort": "low"}, False),
    ],
)
def test_summaries(reasoning: Any, sends_summary: bool) -> None:
    assert parsed(reasoning=reasoning).sends_summary == sends_summary


@pytest.mark.clients(28, 86)
@pytest.mark.parametrize("name", RESPONSE_FIELDS)
def test_null_is_as_good_as_absent(name: str) -> None:
    if name == "input":
        return
    absent = parsed(model="") if name == "model" else parsed()
    assert parsed(**{name: None}).request == absent.request


UNREAD = [
    name
    for name, field in RESPONSE_FIELDS.items()
    if field.treatment == "ignored" and name not in ResponseBody.__struct_fields__
]


@pytest.mark.parametrize("name", UNREAD)
def test_ignored_fields_take_anything(name: str) -> None:
    for value in (1, "x", [{}], {"a": 1}, False):
        assert parsed(**{name: value}).request == parsed().request


def test_the_table_has_every_field_that_is_read() -> None:
    assert set(ResponseBody.__struct_fields__) <= set(RESPONSE_FIELDS)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({"input": None}, "input"),
    "empty input": ({"input": []}, "input"),
    "only a thought": ({"input": [THOUGHT]}, "input"),
    "an unknown item": ({"input": [{"type": "mcp_call", "id": "x"}]}, "input[0].type"),
    "an image": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        "input[0].content[0].image_url",
    ),
    "an image of a tool": (
        {"input": [USER, CALL, {**RESULT, "output": [{"type": "input_image"}]}]},
        "input[2].output[0].image_url",
    ),
    "a call without a name": ({"input": [{**CALL, "name": None}]}, "input[0].name"),
    "conversation": ({"conversation": "conv_1"}, "conversation"),
    "prompt": ({"prompt": {"id": "p"}}, "prompt"),
    "moderation": ({"moderation": {"model": "m"}}, "moderation"),
    "context_management": ({"context_management": []}, "context_management"),
    "n": ({"n": 2}, "n"),
    "background without store": ({"background": True, "store": False}, "background"),
    "truncation": ({"truncation": "middle"}, "truncation"),
    "effort": ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    "max_output_tokens": ({"max_output_tokens": 0}, "max_output_tokens"),
    "top_logprobs": ({"top_logprobs": 21}, "top_logprobs"),
    "metadata": ({"metadata": {"a": "x" * 513}}, "metadata"),
    "much metadata": ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    "format": ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    "web search alone": ({"tools": [SEARCH]}, "tools[0].type"),
    "file search": ({"tools": [WEATHER, {"type": "file_search"}]}, "tools[1].type"),
    "mcp": ({"tools": [WEATHER, {"type": "mcp", "server_label": "x"}]}, "tools[1].type"),
    "a hosted tool in a namespace": (
        {"tools": [{**AGENTS, "tools": [{"type": "shell"}]}]},
        "tools[0].tools[0].type",
    ),
    "two of a name": ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    "a bad name": ({"tools": [{**WEATHER, "name": "a b"}]}, "tools[0].name"),
    "bad parameters": (
        {"tools": [{**WEATHER, "parameters": {"type": "string"}}]},
        "tools[0].parameters.type",
    ),
    "an empty grammar": (
        {"tools": [{**PATCH, "format": {"type": "grammar", "syntax": "lark"}}]},
        "tools[0].format.definition",
    ),
    "choice without tools": ({"tool_choice": "required"}, "tool_choice"),
    "a hosted choice": (
        {"tools": [WEATHER], "tool_choice": {"type": "web_search"}},
        "tool_choice.type",
    ),
    "an unknown choice": (
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "g"}},
        "tool_choice.name",
    ),
    "a wrong type": ({"input": [{"role": 1}]}, "input[0].role"),
}


@pytest.mark.clients(29, 40)
@pytest.mark.parametrize(("fields", "param"), REFUSED.values(), ids=REFUSED)
def test_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parsed(**fields)
    assert caught.value.param == param
    assert param.split(".")[0].split("[")[0] in caught.value.message


def test_a_hosted_tool_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'code_interpreter'"):
        parsed(tools=[{"type": "code_interpreter"}])


def test_background_needs_a_server_that_keeps() -> None:
    asked = read_response(b'{"input": "hi", "background": true}')
    with pytest.raises(InvalidRequest, match="--no-store"):
        parse_response(asked, request_id="req-0", can_store=False)
    call = parse_response(read_response(b'{"input": "hi"}'), request_id="req-0", can_store=False)
    assert (call.stores, call.asked["store"]) == (False, False)
