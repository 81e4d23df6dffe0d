"""Blocks of content to the core's messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.anthropic import parse_message
from maxi_mlx.api.anthropic.signature import Thought
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, Message, ToolCall

HI = Message(role="user", text="hi")


def messages(*items: dict[str, Any], system: Any = None) -> tuple[Message, ...]:
    fields = {"max_tokens": 9, "messages": items, "system": system}
    [prompt] = parse_message(json.dumps(fields).encode(), request_id="r").request.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": blocks}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def refusal(*items: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        messages(*items)
    return caught.value


@pytest.mark.clients(31, 32, 71)
def test_system_texts_of_every_kind() -> None:
    system = [text("one"), {**text("two"), "cache_control": {"type": "ephemeral"}}]
    later = {"role": "system", "content": [text("three")]}
    assert messages(user(text("hi")), later, system=system) == (
        Message(role="system", text="one\ntwo"),
        HI,
        Message(role="system", text="three"),
    )
    assert messages({"role": "user", "content": "hi"}, system="s")[0].text == "s"


TURNS: dict[str, tuple[dict[str, Any], list[Message]]] = {
    "string": ({"role": "user", "content": "hi"}, [HI]),
    "two texts": (user(text("a"), text("b")), [Message(role="user", text="a\nb")]),
    "nothing": (user(), [Message(role="user", text="")]),
    "a text document": (
        user(
            {
                "type": "document",
                "title": "T",
                "context": "C",
                "source": {"type": "text", "media_type": "text/plain", "data": "D"},
            },
            text("?"),
        ),
        [Message(role="user", text="T\n\nC\n\nD\n?")],
    ),
    "a document of blocks": (
        user({"type": "document", "source": {"type": "content", "content": [text("a")]}}),
        [Message(role="user", text="a")],
    ),
    "a search result": (
        user({"type": "search_result", "source": "url", "title": "T", "content": [text("a")]}),
        [Message(role="user", text="T\n\nurl\n\na")],
    ),
    "a result": (
        user({"type": "tool_result", "tool_use_id": "c", "content": "21"}),
        [Message(role="tool", text="21", tool_call_id="c")],
    ),
    "results behind a text": (
        user(
            text("And?"),
            {"type": "tool_result", "tool_use_id": "c", "content": [text("a"), text("b")]},
            {"type": "tool_result", "tool_use_id": "d"},
        ),
        [
            Message(role="tool", text="a\nb", tool_call_id="c"),
            Message(role="tool", text="", tool_call_id="d"),
            Message(role="user", text="And?"),
        ],
    ),
    "failed results": (
        user(
            {"type": "tool_result", "tool_use_id": "c", "content": "no file", "is_error": True},
            {"type": "tool_result", "tool_use_id": "d", "is_error": True},
            {"type": "tool_result", "tool_use_id": "e", "content": "Error 5", "is_error": True},
            {"type": "tool_result", "tool_use_id": "f", "content": "fine", "is_error": False},
        ),
        [
            Message(role="tool", text="Error: no file", tool_call_id="c"),
            Message(role="tool", text="Error", tool_call_id="d"),
            Message(role="tool", text="Error 5", tool_call_id="e"),
            Message(role="tool", text="fine", tool_call_id="f"),
        ],
    ),
    "blocks of servers' tools": (
        user(
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": {"error_code": "x"}},
            {"type": "container_upload", "file_id": "f"},
            text("hi"),
        ),
        [HI],
    ),
}


@pytest.mark.clients(32, 75, 78)
@pytest.mark.parametrize(("item", "wanted"), TURNS.values(), ids=TURNS)
def test_a_users_turn(item: dict[str, Any], wanted: list[Message]) -> None:
    assert messages(item) == tuple(wanted)


def thinking(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "sig", **more}


def hidden(words: str) -> str:
    thought = Thought(is_shown=False)
    thought.add(words)
    return thought.signature


CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1.5, "b": "é"}}
ANSWERS: dict[str, tuple[Any, Message]] = {
    "string": ("yes", Message(role="assistant", text="yes")),
    "a call alone": (
        [CALL],
        Message(
            role="assistant",
            text=None,
            tool_calls=(ToolCall("c", "f", '{"a": 1.5, "b": "é"}'),),
        ),
    ),
    "thought, text and calls": (
        [thinking("hm"), thinking("so"), text("yes"), {**CALL, "input": {}}, CALL],
        Message(
            role="assistant",
            text="yes",
            reasoning="hm\nso",
            tool_calls=(ToolCall("c", "f", "{}"), ToolCall("c", "f", '{"a": 1.5, "b": "é"}')),
        ),
    ),
    "a hidden thought": (
        [thinking("", signature=hidden("hm")), text("yes")],
        Message(role="assistant", text="yes", reasoning="hm"),
    ),
    "thoughts that nobody can read": (
        [thinking(""), {"type": "redacted_thinking", "data": "xyz"}, text("yes")],
        Message(role="assistant", text="yes"),
    ),
    "servers' tools": (
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "x"}]},
            text("yes"),
        ],
        Message(role="assistant", text="yes"),
    ),
    "nothing": ([], Message(role="assistant", text="")),
}


@pytest.mark.clients(33, 74, 78)
@pytest.mark.parametrize(("content", "wanted"), ANSWERS.values(), ids=ANSWERS)
def test_an_assistants_turn(content: Any, wanted: Message) -> None:
    turn = {"role": "assistant", "content": content}
    assert messages(user(text("hi")), turn, user(text("hi"))) == (HI, wanted, HI)


IMAGE = {"type": "image", "source": {"type": "file", "file_id": "f"}}
VIDEO = {"type": "video", "source": {}}
PDF = {"type": "document", "source": {"type": "base64", "data": "AA=="}}
MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no role": ({"content": "hi"}, "messages[0].role", "missing"),
    "unknown role": ({"role": "tool", "content": "hi"}, "messages[0].role", "'tool'"),
    "no content": ({"role": "user"}, "messages[0].content", "missing"),
    "a video": (user(VIDEO), "messages[0].content[0]", "text and images only"),
    "an image from a file": (user(IMAGE), "messages[0].content[0].source", "'file'"),
    "an image from nowhere": (user({"type": "image"}), "messages[0].content[0].source", "missing"),
    "an image in a result": (
        user({"type": "tool_result", "tool_use_id": "c", "content": [text("a"), IMAGE]}),
        "messages[0].content[0].content[1].source",
        "'file'",
    ),
    "an image of the assistant's": (
        {"role": "assistant", "content": [IMAGE]},
        "messages[0].content[0]",
        "only a user's message",
    ),
    "a PDF": (user(PDF), "messages[0].content[0].source", "'base64'"),
    "a document of nothing": (user({"type": "document"}), "messages[0].content[0].source", "None"),
    "a document of odd blocks": (
        user({"type": "document", "source": {"type": "content", "content": [1]}}),
        "messages[0].content[0].source.content",
        "list of blocks",
    ),
    "an unknown block": (
        user({"type": "hologram"}),
        "messages[0].content[0].type",
        "'hologram'",
    ),
    "a call by the user": (user(CALL), "messages[0].content[0].type", "'tool_use'"),
    "no type": (user({"text": "a"}), "messages[0].content[0].type", "missing"),
    "no text": (user({"type": "text"}), "messages[0].content[0].text", "missing"),
    "a result of nothing": (
        user({"type": "tool_result", "content": "a"}),
        "messages[0].content[0].tool_use_id",
        "missing",
    ),
    "a result in an object": (
        user({"type": "tool_result", "tool_use_id": "c", "content": {"a": 1}}),
        "messages[0].content[0].content",
        "list of blocks",
    ),
    "a call without a name": (
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]},
        "messages[0].content[0].name",
        "missing",
    ),
    "an answer alone": ({"role": "assistant", "content": "a"}, "messages", "nothing to answer"),
}


@pytest.mark.clients(32, 40, 42)
@pytest.mark.parametrize(("item", "param", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(item: dict[str, Any], param: str, words: str) -> None:
    error = refusal(item)
    assert error.param == param
    assert words in error.message


def test_blocks_that_nest_without_an_end_are_refused() -> None:
    nested = b'{"type":"tool_result","tool_use_id":"c","content":[' * 5000
    with pytest.raises(InvalidRequest, match="too deeply"):
        parse_message(
            b'{"max_tokens":1,"messages":[{"role":"user","content":[' + nested, request_id="r"
        )
