"""Questions to the scripted model over HTTP, and the text of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.models.scripted import DIALOGUES
from tests.server.running import Answer, Client

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"

# No end token for the model named long, so that only max_tokens or a client ends its answer.
NO_END = {"0": -100, "1": -100, "2": -100, "3": -100}


def body(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    dialogue = DIALOGUES[name]
    return {"model": "scripted", "messages": dialogue.messages, "temperature": 0, **more}


def long_text(prompt: object = "hello", /, **more: Any) -> dict[str, Any]:
    """Asks the model named long for an answer without an end."""
    ask = {"model": "long", "prompt": prompt, "temperature": 0, "max_tokens": -1}
    return {**ask, "logit_bias": NO_END, **more}


def chunks_of(answer: Answer) -> list[dict[str, Any]]:
    """The stream's JSON, after checking its form."""
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    frames = [f for f in answer.body.decode().split("\n\n") if f != ": keep-alive"]
    assert frames[-2:] == ["data: [DONE]", ""]
    assert all(frame.startswith("data: {") for frame in frames[:-2])
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]


def text_of(chunks: list[dict[str, Any]], *, choice: int = 0) -> str:
    return "".join(
        part["text"] if "text" in part else part["delta"].get("content", "")
        for chunk in chunks
        for part in chunk["choices"]
        if part["index"] == choice
    )


def reasons_of(chunks: list[dict[str, Any]], *, choice: int = 0) -> list[str]:
    """Every finish_reason that a stream gave to one of its answers."""
    parts = [part for chunk in chunks for part in chunk["choices"] if part["index"] == choice]
    return [part["finish_reason"] for part in parts if part["finish_reason"] is not None]


async def said(
    client: Client, path: str, ask: Mapping[str, Any], *, stream: bool
) -> tuple[str, str, int]:
    """The text of the first answer, why it ended, and how many tokens it took."""
    if stream:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = chunks_of(await client.post(path, json={**ask, **options}))
        [reason] = reasons_of(chunks)
        return text_of(chunks), reason, chunks[-1]["usage"]["completion_tokens"]
    answer = await client.post(path, json=ask)
    assert answer.status == 200, answer.body
    choice = answer.json["choices"][0]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    return text, choice["finish_reason"], answer.json["usage"]["completion_tokens"]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def is_idle(client: Client) -> bool:
    """Whether the device, too, has nothing left to do; its figures are read now and then."""
    status = client.engine.status()
    device = sum(model.num_running for model in status.loaded)
    return status.num_running + status.num_waiting + device == 0
