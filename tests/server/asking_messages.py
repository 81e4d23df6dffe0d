"""Questions to the Messages API of a server in a test, and what is in its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.models.scripted import DIALOGUES, TOOLS, Dialogue
from tests.server.asking import CHAT, body
from tests.server.running import Answer, Client
from tests.unit.api.test_anthropic_writers import frames, joined

MESSAGES = "/v1/messages"
COUNTING = "/v1/messages/count_tokens"
VERSION = {"Anthropic-Version": "2023-06-01"}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

CITY_TOOLS = [
    {
        "name": tool["function"]["name"],
        "description": tool["function"]["description"],
        "input_schema": tool["function"]["parameters"],
    }
    for tool in TOOLS
]


def turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of OpenAI's form in Anthropic's."""
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        return {"role": "user", "content": [{**block, "content": message["content"]}]}
    blocks = [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        given = json.loads(function["arguments"])
        called = {"id": call["id"], "name": function["name"], "input": given}
        blocks.append({"type": "tool_use", **called})
    return {"role": message["role"], "content": blocks}


def asked(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    dialogue = DIALOGUES[name]
    ask: dict[str, Any] = {
        "model": "scripted",
        "max_tokens": 200,
        "temperature": 0,
        "messages": [turn(each) for each in dialogue.messages if each["role"] != "system"],
    }
    system = [each["content"] for each in dialogue.messages if each["role"] == "system"]
    if system:
        ask["system"] = system[0]
    if dialogue.tools:
        ask["tools"] = CITY_TOOLS
    if dialogue.template_kwargs == {"enable_thinking": False}:
        ask["thinking"] = {"type": "disabled"}
    return {**ask, **more}


async def message(client: Client, ask: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """The answer, whole or joined from its stream."""
    answer = await client.post(MESSAGES, json={**ask, "stream": stream}, headers=VERSION)
    assert answer.status == 200, answer.body
    if not stream:
        assert answer.headers["Content-Type"].startswith("application/json")
        return dict(answer.json)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    first, *rest = [each for each in frames(answer.body) if each["type"] != "ping"]
    delta, stop = rest[-2:]
    assert (first["type"], stop["type"]) == ("message_start", "message_stop")
    content = []
    for block in joined(rest):
        written = block.pop("json")
        content.append({**block, "input": json.loads(written)} if written else block)
    usage = {**first["message"]["usage"], **delta["usage"]}
    return {**first["message"], **delta["delta"], "content": content, "usage": usage}


def text_of(answer: dict[str, Any]) -> str:
    return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


def calls_of(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    blocks = [block for block in answer["content"] if block["type"] == "tool_use"]
    return [(block["name"], block["input"]) for block in blocks]


def tokens(usage: Mapping[str, Any]) -> int:
    return int(usage["input_tokens"] + usage["cache_read_input_tokens"])


def error_of(answer: Answer) -> dict[str, Any]:
    """The error, which has to have Anthropic's form and nothing else."""
    assert set(answer.json) == {"type", "error", "request_id"}
    assert answer.json["type"] == "error"
    assert answer.json["request_id"] == answer.headers["Request-Id"]
    error = answer.json["error"]
    assert set(error) in ({"type", "message"}, {"type", "message", "details"})
    assert error["message"]
    return dict(error)


async def chat_answer(client: Client, dialogue: Dialogue) -> dict[str, Any]:
    more: dict[str, Any] = {"tools": dialogue.tools} if dialogue.tools else {}
    more["chat_template_kwargs"] = dialogue.template_kwargs
    answer = await client.post(CHAT, json=body(dialogue.name, max_tokens=200, **more))
    assert answer.status == 200, answer.body
    return dict(answer.json)
