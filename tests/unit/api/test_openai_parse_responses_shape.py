"""Bodies in the Responses API's shape that come to /chat/completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.openai import parse_chat
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, Message, ToolCall

pytestmark = pytest.mark.clients(43)


def parse(**fields: Any) -> ChatPrompt:
    call = parse_chat(json.dumps({"model": "m", **fields}).encode(), request_id="r")
    prompt = call.request.prompts[0]
    assert isinstance(prompt, ChatPrompt)
    return prompt


def test_a_string_is_a_user_message() -> None:
    assert parse(input="hi", instructions="be brief").messages == (
        Message(role="system", text="be brief"),
        Message(role="user", text="hi"),
    )


def test_items_become_a_conversation() -> None:
    messages = parse(
        input=[
            {"role": "developer", "content": "rules"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "…"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I'll look"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{"},
            {"type": "function_call_output", "call_id": "1", "output": "one"},
            {"type": "function_call_output", "call_id": "2"}
            | {"output": [{"type": "input_text", "text": "two"}]},
            {"type": "function_call", "call_id": "3", "name": "f", "arguments": "{}"},
        ]
    ).messages
    assert messages == (
        Message(role="system", text="rules"),
        Message(role="user", text="q"),
        Message(
            role="assistant",
            text="I'll look",
            tool_calls=(ToolCall("1", "f", "{}"), ToolCall("2", "g", "{")),
        ),
        Message(role="tool", text="one", tool_call_id="1"),
        Message(role="tool", text="two", tool_call_id="2"),
        Message(role="assistant", text=None, tool_calls=(ToolCall("3", "f", "{}"),)),
    )


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({"max_output_tokens": 7}, 7),
        ({"max_output_tokens": 7, "max_tokens": 9}, 9),
        ({"max_output_tokens": None}, None),
    ],
    ids=str,
)
def test_length(fields: dict[str, Any], max_tokens: int | None) -> None:
    body = json.dumps({"input": "hi", **fields}).encode()
    assert parse_chat(body, request_id="r").request.max_tokens == max_tokens


def test_effort() -> None:
    assert parse(input="hi", reasoning={"effort": "low", "summary": "auto"}).template_kwargs == {
        "reasoning_effort": "low"
    }


def test_harmless_fields() -> None:
    fields = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "truncation": "auto",
        "tools": [],
        "previous_response_id": None,
    }
    assert parse(input="hi", **fields) == parse(input="hi")


def test_beside_messages_they_are_unknown_fields() -> None:
    messages = [{"role": "user", "content": "hi"}]
    fields = {"input": 5, "instructions": 5, "text": 5, "reasoning": 5, "max_output_tokens": "x"}
    assert parse(messages=messages, **fields) == parse(messages=messages)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "messages"),
        ({"input": 5}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"type": "reasoning"}]}, "input"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "hologram"}]}, "input[0].type"),
        ({"input": [{"type": "function_call"}]}, "input[0].name"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].image_url",
        ),
        ({"input": "hi", "tools": [{"type": "function"}]}, "tools[0].function"),
        ({"input": "hi", "text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"input": "hi", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": "hi", "conversation": "conv_1"}, "conversation"),
        ({"input": "hi", "reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"input": "hi", "max_output_tokens": 0}, "max_output_tokens"),
    ],
    ids=str,
)
def test_mistakes_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    assert caught.value.param == param
