"""One conversation through all four APIs: the same words, the same call, the same counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import HELPFUL, PARIS_QUESTION, TOOLS
from tests.server import asking_messages, asking_ollama, asking_responses
from tests.server.asking import CHAT, chunks_of, text_of
from tests.server.running import Client, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

Messages = Sequence[dict[str, Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path) -> AsyncIterator[Client]:
    async with started() as start:
        yield await start(Settings(), Root(scripted_model, "tests", "folders"))


@dataclass(frozen=True)
class Turn:
    """What an API says of one answer."""

    text: str
    calls: tuple[tuple[str, str], ...]
    prompt_tokens: int
    completion_tokens: int


def called(name: str, arguments: Any) -> tuple[str, str]:
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    return name, json.dumps(given)


async def by_chat(client: Client, messages: Messages, *, stream: bool) -> Turn:
    ask = {"model": "scripted", "messages": messages, "tools": TOOLS, "temperature": 0}
    if stream:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = chunks_of(await client.post(CHAT, json={**ask, **options}))
        text, usage = text_of(chunks), chunks[-1]["usage"]
        pieces = [
            piece["function"]
            for chunk in chunks
            for choice in chunk["choices"]
            for piece in choice["delta"].get("tool_calls", ())
        ]
        names = [piece["name"] for piece in pieces if "name" in piece]
        arguments = "".join(piece["arguments"] for piece in pieces)
        calls = [called(name, arguments) for name in names]  # there is one at most
    else:
        answer = (await client.post(CHAT, json=ask)).json
        message, usage = answer["choices"][0]["message"], answer["usage"]
        functions = [call["function"] for call in message.get("tool_calls", ())]
        text = message["content"] or ""
        calls = [called(each["name"], each["arguments"]) for each in functions]
    return Turn(text, tuple(calls), usage["prompt_tokens"], usage["completion_tokens"])


async def by_responses(client: Client, messages: Messages, *, stream: bool) -> Turn:
    items: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **output})
        elif "tool_calls" in message:
            items += [
                {"type": "function_call", "call_id": call["id"], **call["function"]}
                for call in message["tool_calls"]
            ]
        else:
            items.append(message)
    ask = {"model": "scripted", "input": items, "temperature": 0, "stream": stream}
    answer = await client.post("/v1/responses", json={**ask, "tools": asking_responses.FLAT_TOOLS})
    response = asking_responses.events_of(answer)[-1]["response"] if stream else answer.json
    usage = response["usage"]
    return Turn(
        asking_responses.text_of(response),
        tuple(
            called(item["name"], item["arguments"])
            for item in response["output"]
            if item["type"] == "function_call"
        ),
        usage["input_tokens"],
        usage["output_tokens"],
    )


async def by_messages(client: Client, messages: Messages, *, stream: bool) -> Turn:
    system, *others = messages
    ask = {
        "model": "scripted",
        "system": system["content"],
        "messages": [asking_messages.turn(each) for each in others],
        "tools": asking_messages.CITY_TOOLS,
        "max_tokens": 200,
        "temperature": 0,
    }
    answer = await asking_messages.message(client, ask, stream=stream)
    return Turn(
        asking_messages.text_of(answer),
        tuple(called(name, given) for name, given in asking_messages.calls_of(answer)),
        asking_messages.tokens(answer["usage"]),
        answer["usage"]["output_tokens"],
    )


async def by_ollama(client: Client, messages: Messages, *, stream: bool) -> Turn:
    ask = {
        "model": "scripted",
        "messages": [asking_ollama.turn(each) for each in messages],
        "tools": TOOLS,
        "options": {"temperature": 0},
    }
    answer = await asking_ollama.chat(client, ask, stream=stream)
    return Turn(
        answer["message"]["content"],
        tuple(called(name, given) for name, given in asking_ollama.calls_of(answer)),
        answer["prompt_eval_count"],
        answer["eval_count"],
    )


APIS: dict[str, Callable[..., Awaitable[Turn]]] = {
    "chat": by_chat,
    "responses": by_responses,
    "messages": by_messages,
    "ollama": by_ollama,
}
QUESTION = [
    {"role": "system", "content": HELPFUL},
    {"role": "user", "content": PARIS_QUESTION},
]


@pytest.mark.clients(5)
async def test_four_apis_say_the_same(client: Client) -> None:
    arguments = json.dumps({"city": "Paris"})
    function = {"name": "get_weather", "arguments": arguments}
    call = {"id": "call_0", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": "call_0", "content": "21 degrees, clear"}
    answered = [*QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]}, result]
    asks = (QUESTION, answered)
    turns = [
        [await api(client, messages, stream=stream) for messages in asks]
        for api in APIS.values()
        for stream in (False, True)
    ]
    first, second = turns[0]
    assert all(each == turns[0] for each in turns), turns
    assert (first.text, first.calls) == ("", (("get_weather", arguments),))
    assert (second.text, second.calls) == ("It is 21 degrees in Paris, and the sky is clear.", ())
    assert second.prompt_tokens > first.prompt_tokens > 100
    assert second.completion_tokens > 10
