"""Questions to Ollama's API of a server in a test, and what is in its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.models.scripted import DIALOGUES
from tests.server.running import Answer, Client

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
COUNTS = ("prompt_eval_count", "eval_count")
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


def turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of OpenAI's form in Ollama's: without ids, and with arguments as objects."""
    if message["role"] == "tool":
        return {"role": "tool", "tool_name": "get_weather", "content": message["content"]}
    calls = [call["function"] for call in message.get("tool_calls", ())]
    called = [
        {"function": {"name": each["name"], "arguments": json.loads(each["arguments"])}}
        for each in calls
    ]
    more = {"tool_calls": called} if called else {}
    return {"role": message["role"], "content": message["content"], **more}


def asked(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    dialogue = DIALOGUES[name]
    ask: dict[str, Any] = {
        "model": "scripted",
        "messages": [turn(message) for message in dialogue.messages],
        "options": {"temperature": 0},
        "tools": list(dialogue.tools),
    }
    if dialogue.template_kwargs == {"enable_thinking": False}:
        ask["think"] = False
    return {**ask, **more}


def lines_of(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.splitlines()]


async def chat(client: Client, ask: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """The answer, whole or joined from its stream."""
    answer = await client.post("/api/chat", json={**ask, "stream": stream})
    if not stream:
        assert answer.status == 200, answer.body
        assert answer.headers["Content-Type"].startswith("application/json")
        return dict(answer.json)
    *lines, last = lines_of(answer)
    assert not any(line["done"] for line in lines)
    said = [line["message"] for line in (*lines, last)]
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = "".join(each["content"] for each in said)
    if thinking := "".join(each.get("thinking", "") for each in said):
        message["thinking"] = thinking
    if calls := [call for each in said for call in each.get("tool_calls", ())]:
        message["tool_calls"] = calls
    return {**last, "message": message}


async def generated(client: Client, ask: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    sent = {"model": "scripted", "options": {"temperature": 0}, **ask, "stream": stream}
    answer = await client.post("/api/generate", json=sent)
    if not stream:
        assert answer.status == 200, answer.body
        return dict(answer.json)
    lines = lines_of(answer)
    joined = {"response": "".join(line["response"] for line in lines)}
    if thinking := "".join(line.get("thinking", "") for line in lines):
        joined["thinking"] = thinking
    return {**lines[-1], **joined}


def calls_of(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    calls = answer["message"].get("tool_calls", ())
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def error_of(answer: Answer) -> str:
    """The error, which has to have Ollama's form and nothing else."""
    assert set(answer.json) == {"error"}
    assert isinstance(answer.json["error"], str)
    return str(answer.json["error"])
