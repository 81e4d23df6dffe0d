"""Messages of /chat/completions: roles, shapes of content, earlier calls, and the mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.openai import parse_chat
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, Message, ToolCall

USER = [{"role": "user", "content": "hi"}]


def parsed_messages(*items: Any) -> tuple[Message, ...]:
    body = json.dumps({"messages": items}).encode()
    prompt = parse_chat(body, request_id="r").request.prompts[0]
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def refusal_of(messages: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(json.dumps({"messages": messages}).encode(), request_id="r")
    return caught.value


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"role": "system", "content": "s"}, Message(role="system", text="s")),
        ({"role": "developer", "content": "d"}, Message(role="system", text="d")),
        ({"role": "user", "content": "", "name": "ann"}, Message(role="user", text="", name="ann")),
        ({"role": "assistant", "content": None}, Message(role="assistant", text="")),
        ({"role": "assistant"}, Message(role="assistant", text="")),
        ({"role": "assistant", "content": " "}, Message(role="assistant", text=" ")),
        (
            {"role": "assistant", "content": None, "refusal": "I won't"},
            Message(role="assistant", text="I won't"),
        ),
        (
            {"role": "assistant", "content": "a", "reasoning_content": "hm"},
            Message(role="assistant", text="a", reasoning="hm"),
        ),
        (
            {"role": "assistant", "content": "a", "reasoning_content": None, "reasoning": "hm"},
            Message(role="assistant", text="a", reasoning="hm"),
        ),
        (
            {"role": "tool", "content": "", "tool_call_id": "c"},
            Message(role="tool", text="", tool_call_id="c"),
        ),
        ({"role": "tool", "content": None}, Message(role="tool", text="")),
        (
            {"role": "function", "name": "f", "content": "1"},
            Message(role="tool", text="1", name="f"),
        ),
        (
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
            Message(role="assistant", text="", tool_calls=(ToolCall("", "f", "{}"),)),
        ),
        ({"role": "user", "content": "é 😀\x00"}, Message(role="user", text="é 😀\x00")),
        ({"role": "user", "content": []}, Message(role="user", text="")),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
@pytest.mark.clients(20, 30, 33)
def test_messages(item: dict[str, Any], message: Message) -> None:
    assert parsed_messages(item) == (message,)


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([{"type": "text", "text": "one"}], "one"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "input_text", "text": "in"}], "in"),
        ([{"type": "output_text", "text": "out"}], "out"),
        ([{"type": "refusal", "refusal": "no"}], "no"),
        ([{"type": "text", "text": "kept", "cache_control": {"type": "ephemeral"}}], "kept"),
    ],
    ids=["one", "two", "input_text", "output_text", "refusal", "cache_control"],
)
@pytest.mark.clients(28, 32)
def test_parts_are_text_for_every_role(role: str, parts: list[Any], text: str) -> None:
    assert parsed_messages({"role": role, "content": parts})[0].text == text


@pytest.mark.clients(31)
def test_system_messages_keep_their_places() -> None:
    roles = ["system", "user", "developer", "assistant", "system"]
    turns = parsed_messages(*({"role": role, "content": role} for role in roles))
    assert [(turn.role, turn.text) for turn in turns] == [
        ("system", "system"),
        ("user", "user"),
        ("system", "developer"),
        ("assistant", "assistant"),
        ("system", "system"),
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            ToolCall("c", "f", '{"a": 1}'),
        ),
        ({"id": "c", "function": {"name": "f", "arguments": "{"}}, ToolCall("c", "f", "{")),
        ({"id": "c", "function": {"name": "f", "arguments": ""}}, ToolCall("c", "f", "")),
        ({"id": "c", "function": {"name": "f"}}, ToolCall("c", "f", "{}")),
        (
            {"function": {"name": "f", "arguments": {"a": [1, "é"]}}},
            ToolCall("", "f", '{"a":[1,"é"]}'),
        ),
        (
            {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
            ToolCall("c", "sh", "ls"),
        ),
    ],
    ids=["text", "broken text", "empty text", "none", "object", "custom"],
)
@pytest.mark.parametrize("content", [{}, {"content": None}], ids=["absent", "null"])
@pytest.mark.clients(33)
def test_tool_calls_of_earlier_turns(
    call: dict[str, Any], expected: ToolCall, content: dict[str, Any]
) -> None:
    item = {"role": "assistant", "tool_calls": [call], **content}
    assert parsed_messages(item) == (Message(role="assistant", text=None, tool_calls=(expected,)),)


MISTAKES: list[tuple[Any, str, str]] = [
    (None, "messages", "'messages' is missing"),
    ([], "messages", "'messages' is empty"),
    ("hi", "messages", "must be a list, not a string"),
    ({}, "messages", "must be a list, not an object"),
    (["hi"], "messages[0]", "must be an object, not a string"),
    ([None], "messages[0]", "must be an object, not null"),
    ([{"content": "x"}], "messages[0].role", "is missing"),
    ([{"role": 5, "content": "x"}], "messages[0].role", "not a whole number"),
    ([{"role": "robot", "content": "x"}], "messages[0].role", "not 'robot'"),
    (
        [{"role": "user", "content": 5}],
        "messages[0].content",
        "must be a string or a list, not a whole number",
    ),
    ([*USER, {"role": "user"}], "messages[1].content", "is missing"),
    ([{"role": "user", "content": None}], "messages[0].content", "is missing"),
    (
        [{"role": "system", "content": ["x"]}],
        "messages[0].content[0]",
        "must be an object, not a string",
    ),
    (
        [{"role": "user", "content": [{"type": "text"}]}],
        "messages[0].content[0].text",
        "is missing",
    ),
    (
        [{"role": "user", "content": [{"text": "x"}]}],
        "messages[0].content[0].type",
        "is missing",
    ),
    (
        [{"role": "user", "content": [{"type": "hologram"}]}],
        "messages[0].content[0].type",
        "'hologram'",
    ),
    (
        [{"role": "user", "content": [{"type": "text", "text": 1}]}],
        "messages[0].content[0].text",
        "must be a string, not a whole number",
    ),
    (
        [{"role": "user", "content": [{"type": "refusal", "text": "x"}]}],
        "messages[0].content[0].refusal",
        "is missing",
    ),
    (
        [{"role": "assistant", "tool_calls": [{"id": "c"}]}],
        "messages[0].tool_calls[0].function",
        "is missing",
    ),
    (
        [{"role": "assistant", "tool_calls": [{"function": {}}]}],
        "messages[0].tool_calls[0].function.name",
        "is missing",
    ),
    (
        [{"role": "assistant", "tool_calls": [{"custom": {}}]}],
        "messages[0].tool_calls[0].custom.name",
        "is missing",
    ),
    (
        [{"role": "assistant", "tool_calls": 1}],
        "messages[0].tool_calls",
        "must be a list, not a whole number",
    ),
    ([{"role": "assistant", "audio": {"id": "a"}}], "messages[0].audio", "text only"),
]


@pytest.mark.parametrize(
    ("messages", "param", "words"),
    MISTAKES,
    ids=[f"{param}-{words[:40]}" for _, param, words in MISTAKES],
)
@pytest.mark.clients(32, 40)
def test_a_mistake_is_named(messages: object, param: str, words: str) -> None:
    error = refusal_of(messages)
    assert (error.status, error.param) == (400, param)
    assert words in error.message


@pytest.mark.parametrize("kind", ["image", "input_audio", "file", "video_url"])
@pytest.mark.clients(42)
def test_media_are_refused_by_name(kind: str) -> None:
    parts = [{"type": "text", "text": "what is this?"}, {"type": kind, kind: {"url": "data:,"}}]
    error = refusal_of([{"role": "user", "content": parts}])
    assert error.param == "messages[0].content[1]"
    assert error.message == (
        f"'messages[0].content[1]' is a part of type '{kind}', but this version takes text and "
        "images (image_url) only."
    )
