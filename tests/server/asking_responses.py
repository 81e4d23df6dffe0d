"""Questions to the Responses API of a server in a test, and what is in its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.models.scripted import DIALOGUES, TOOLS
from tests.server.asking import NO_END
from tests.server.running import Answer, Client

PATH = "/v1/responses"
FLAT_TOOLS = [{"type": "function", **tool["function"]} for tool in TOOLS]


def ask(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    dialogue = DIALOGUES[name]
    if dialogue.tools:
        more = {"tools": FLAT_TOOLS, **more}
    return {"model": "scripted", "input": list(dialogue.messages), "temperature": 0, **more}


def endless(**more: Any) -> dict[str, Any]:
    return {
        "model": "long",
        "input": "hello",
        "temperature": 0,
        "logit_bias": NO_END,
        "chat_template_kwargs": {},
        **more,
    }


def events_of(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    found = []
    for frame in answer.body.decode().split("\n\n")[:-1]:
        if frame != ": keep-alive":
            kind, _, data = frame.partition("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert kind == f"event: {found[-1]['type']}"
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def text_of(response: Mapping[str, Any]) -> str:
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def without_ids(response: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs of one request have in common."""
    varying = ("id", "call_id", "created_at", "completed_at", "cached_tokens")

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in varying}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return dict(plain(response))


async def made(client: Client, asked: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(PATH, json=asked)
    assert answer.status == 200, answer.body
    return dict(answer.json)
