"""Bodies of /messages: what each becomes, and what each mistake is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.anthropic import MessageCall, parse_count, parse_message
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import Constraint, Json
from maxi_mlx.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Reasoning,
    SamplingParams,
    Tool,
    ToolChoice,
)

USER = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "get_weather", "description": "The weather", "input_schema": SCHEMA}
TIME = {"name": "get_time", "input_schema": {"type": "object"}, "type": "custom", "strict": True}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
BASH = {"type": "bash_20250124", "name": "bash"}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 100, "messages": USER, **fields}).encode()


def parse(**fields: Any) -> MessageCall:
    return parse_message(body(**fields), request_id="r")


def prompt(**fields: Any) -> ChatPrompt:
    found = parse(**fields).request.prompts[0]
    assert isinstance(found, ChatPrompt)
    return found


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value


PLAIN = GenerateRequest(
    id="r",
    model="m",
    max_tokens=100,
    prompts=(ChatPrompt(messages=(Message(role="user", text="hi"),)),),
)


def test_the_smallest_body() -> None:
    call = MessageCall(request=PLAIN, stream=False, max_tokens=100, shows_thoughts=True)
    assert parse() == call


@pytest.mark.clients(27, 28, 73, 74)
def test_what_changes_nothing() -> None:
    mark = {"type": "ephemeral"}
    fields = {
        "metadata": {"user_id": "u"},
        "cache_control": mark,
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "service_tier": "auto",
        "speed": None,
        "mcp_servers": [],
        "tools": [],
        "container": None,
        "thread": False,
        "stop_sequences": None,
        "thinking": None,
        "tool_choice": None,
        "system": "",
        "unheard_of": {"a": [1]},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]}
        ],
    }
    assert parse(**fields) == parse()


def test_every_option() -> None:
    call = parse(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop_sequences=["END", " "],
        stream=True,
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        thinking={"type": "enabled", "budget_tokens": 99, "display": "omitted"},
        tools=[WEATHER, TIME],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )
    request = call.request
    assert request.sampling == SamplingParams(temperature=0.5, top_p=0.9, top_k=40)
    assert request.stop == ("END", " ")
    assert request.reasoning == Reasoning(effort="low", enabled=True, budget_tokens=99)
    assert request.tools == (
        Tool(name="get_weather", description="The weather", parameters=SCHEMA),
        Tool(name="get_time", parameters={"type": "object"}, strict=True),
    )
    assert request.tool_choice == ToolChoice(mode="required")
    assert not request.parallel_tool_calls
    assert request.constraint == Constraint(
        node=Json(json.dumps(SCHEMA)), param="output_config.format.schema"
    )
    assert (call.stream, call.shows_thoughts) == (True, False)
    [asked] = request.prompts
    assert isinstance(asked, ChatPrompt)
    assert asked.template_kwargs == {"reasoning_effort": "low", "enable_thinking": True}


def test_the_older_name_of_the_format() -> None:
    constraint = parse(output_format={"type": "json_schema", "schema": SCHEMA}).request.constraint
    assert constraint is not None
    assert constraint.param == "output_format.schema"


THINKING: dict[str, tuple[Any, Reasoning]] = {
    "absent": (None, Reasoning()),
    "disabled": ({"type": "disabled"}, Reasoning(enabled=False)),
    "adaptive": ({"type": "adaptive", "display": "summarized"}, Reasoning(enabled=True)),
    "between tools": ({"type": "between_tools"}, Reasoning(enabled=True)),
    "enabled": (
        {"type": "enabled", "budget_tokens": 1},
        Reasoning(enabled=True, budget_tokens=1),
    ),
    "enabled without a budget": ({"type": "enabled"}, Reasoning(enabled=True)),
}


@pytest.mark.clients(74)
@pytest.mark.parametrize(("thinking", "reasoning"), THINKING.values(), ids=THINKING)
def test_thinking(thinking: Any, reasoning: Reasoning) -> None:
    assert parse(thinking=thinking).request.reasoning == reasoning
    switch = {} if reasoning.enabled is None else {"enable_thinking": reasoning.enabled}
    assert prompt(thinking=thinking).template_kwargs == switch


CHOICES: dict[str, tuple[Any, ToolChoice, tuple[str, ...]]] = {
    "auto": ({"type": "auto"}, ToolChoice(), ("get_weather", "get_time")),
    "any": ({"type": "any"}, ToolChoice(mode="required"), ("get_weather", "get_time")),
    "tool": (
        {"type": "tool", "name": "get_time"},
        ToolChoice(mode="required", names=("get_time",)),
        ("get_weather", "get_time"),
    ),
    "none": ({"type": "none"}, ToolChoice(), ()),
}


@pytest.mark.clients(13)
@pytest.mark.parametrize(("choice", "wanted", "names"), CHOICES.values(), ids=CHOICES)
def test_tool_choice(choice: Any, wanted: ToolChoice, names: tuple[str, ...]) -> None:
    request = parse(tools=[WEATHER, TIME], tool_choice=choice).request
    assert request.tool_choice == wanted
    assert tuple(tool.name for tool in request.tools) == names
    assert request.parallel_tool_calls


@pytest.mark.clients(78)
def test_point_78_tools_of_anthropics_are_left_out_beside_others() -> None:
    toolset = {"type": "computer_toolset_20260801", "configs": {}}
    request = parse(tools=[SEARCH, WEATHER, BASH, toolset]).request
    assert [tool.name for tool in request.tools] == ["get_weather"]
    assert parse(tools=[SEARCH], tool_choice={"type": "none"}).request.tools == ()


def test_zero_tokens_read_the_prompt_alone() -> None:
    call = parse(max_tokens=0)
    assert (call.max_tokens, call.request.max_tokens) == (0, 1)


PREFILL = [*USER, {"role": "assistant", "content": [{"type": "text", "text": "The answer ("}]}]


def test_a_last_message_of_the_assistants_begins_the_answer() -> None:
    assert prompt(messages=PREFILL) == ChatPrompt(
        messages=(Message(role="user", text="hi"),), prefill="The answer ("
    )


def test_an_empty_last_message_or_a_call_begins_nothing() -> None:
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    for content in ("", [{"type": "text", "text": "x"}, call]):
        messages = [*USER, {"role": "assistant", "content": content}]
        assert prompt(messages=messages).prefill is None
        assert len(prompt(messages=messages).messages) == 2


FORMAT = {"type": "json_schema", "schema": SCHEMA}
MISTAKES: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "no limit": ({"max_tokens": None}, "max_tokens", "missing"),
    "limit below 0": ({"max_tokens": -1}, "max_tokens", "at least 0"),
    "no messages": ({"messages": None}, "messages", "missing"),
    "empty messages": ({"messages": []}, "messages", "empty"),
    "messages a string": ({"messages": "hi"}, "messages", "a list"),
    "a long name": ({"model": "m" * 2000}, "model", "2000 characters"),
    "temperature": ({"temperature": 2.5}, "temperature", "from 0 to 2"),
    "top_p": ({"top_p": 0}, "top_p", "above 0"),
    "top_k": ({"top_k": -2}, "top_k", "-1"),
    "stop_sequences": ({"stop_sequences": "END"}, "stop_sequences", "a list"),
    "an empty stop": ({"stop_sequences": ["a", ""]}, "stop_sequences[1]", "1 to 1000"),
    "a long stop": ({"stop_sequences": ["a" * 1001]}, "stop_sequences[0]", "1001"),
    "many stops": ({"stop_sequences": ["a"] * 65}, "stop_sequences", "65 strings"),
    "container": ({"container": "c_1"}, "container", "no code runs"),
    "thread": ({"thread": {"id": "t"}}, "thread", "not kept"),
    "mcp": ({"mcp_servers": [{"url": "x"}]}, "mcp_servers", "calls no others"),
    "thinking type": ({"thinking": {"type": "on"}}, "thinking.type", "'on'"),
    "no thinking type": ({"thinking": {}}, "thinking.type", "missing"),
    "budget of 0": (
        {"thinking": {"type": "enabled", "budget_tokens": 0}},
        "thinking.budget_tokens",
        "at least 1",
    ),
    "budget of all": (
        {"thinking": {"type": "enabled", "budget_tokens": 100}},
        "thinking.budget_tokens",
        "'max_tokens' is 100",
    ),
    "display": (
        {"thinking": {"type": "adaptive", "display": "x"}},
        "thinking.display",
        "'summarized'",
    ),
    "effort": ({"output_config": {"effort": "some"}}, "output_config.effort", "'some'"),
    "format type": (
        {"output_config": {"format": {"type": "json"}}},
        "output_config.format.type",
        "'json'",
    ),
    "no schema": ({"output_format": {"type": "json_schema"}}, "output_format.schema", "missing"),
    "bad schema": (
        {"output_format": {"type": "json_schema", "schema": {"type": "thing"}}},
        "output_format.schema.type",
        "'thing'",
    ),
    "two formats": (
        {"output_format": FORMAT, "output_config": {"format": FORMAT}},
        "output_format",
        "older name",
    ),
    "format and prefill": (
        {"output_format": FORMAT, "messages": PREFILL},
        "output_format.schema",
        "whole answer",
    ),
    "server tools alone": ({"tools": [SEARCH]}, "tools[0].type", "'web_search_20250305'"),
    "a server tool chosen": (
        {"tools": [WEATHER, SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}},
        "tool_choice.name",
        "'web_search_20250305'",
    ),
    "an unknown tool chosen": (
        {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}},
        "tool_choice.name",
        "none of the 'tools'",
    ),
    "a choice without tools": ({"tool_choice": {"type": "any"}}, "tool_choice", "no 'tools'"),
    "a choice without name": (
        {"tools": [WEATHER], "tool_choice": {"type": "tool"}},
        "tool_choice.name",
        "missing",
    ),
    "an unknown choice": (
        {"tools": [WEATHER], "tool_choice": {"type": "required"}},
        "tool_choice.type",
        "'required'",
    ),
    "a choice without type": ({"tools": [WEATHER], "tool_choice": {}}, "tool_choice.type", "miss"),
    "no tool name": ({"tools": [{"input_schema": {}}]}, "tools[0].name", "missing"),
    "bad tool name": ({"tools": [{**WEATHER, "name": "a b"}]}, "tools[0].name", "'a b'"),
    "no tool schema": ({"tools": [{"name": "f"}]}, "tools[0].input_schema", "missing"),
    "tool schema of a list": (
        {"tools": [{"name": "f", "input_schema": {"type": "array"}}]},
        "tools[0].input_schema.type",
        "'array'",
    ),
    "two of a name": ({"tools": [WEATHER, WEATHER]}, "tools[1].name", "must differ"),
}


@pytest.mark.clients(29, 39, 40, 77)
@pytest.mark.parametrize(("fields", "param", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(fields: dict[str, Any], param: str, words: str) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert words in error.message


@pytest.mark.clients(76)
def test_point_76_a_count_needs_no_limit_and_counts_what_a_message_reads() -> None:
    fields = {
        "system": "s",
        "tools": [WEATHER, SEARCH],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "enabled", "budget_tokens": 500},
    }
    counted = parse_count(
        json.dumps({"model": "m", "messages": PREFILL, **fields}).encode(), request_id="r"
    )
    sent = parse(messages=PREFILL, max_tokens=900, **fields).request
    assert counted.prompts == sent.prompts
    assert counted == GenerateRequest(id="r", model="m", prompts=sent.prompts)
