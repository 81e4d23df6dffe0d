"""The official ollama package, which reads every answer into its types, gets exact answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import ollama
import pytest

from maxi_mlx.core.settings import Settings
from tests.clients.conftest import Served, serving
from tests.models.scripted import (
    COUNT,
    DIALOGUES,
    PARIS_QUESTION,
    SUM_QUESTION,
    SUM_THOUGHT,
    TWO_CITIES_QUESTION,
)

WEATHER = {"Paris": "21 degrees, clear", "Tokyo": "15 degrees, rain"}
GREEDY = {"temperature": 0}


def get_weather(city: str) -> str:
    """The weather in a city"""
    return WEATHER[city]


def get_time(city: str) -> str:
    """The time in a city"""
    raise NotImplementedError(city)


@pytest.fixture
def client(served: Served) -> Iterator[ollama.Client]:
    with ollama.Client(host=served.base_url.removesuffix("/v1")) as client:
        yield client


@pytest.fixture
async def async_client(served: Served) -> AsyncIterator[ollama.AsyncClient]:
    async with ollama.AsyncClient(host=served.base_url.removesuffix("/v1")) as client:
        yield client


def ask(question: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    return {"model": "scripted", "messages": messages, "options": GREEDY, **more}


@pytest.mark.clients(98)
def test_chats(client: ollama.Client) -> None:
    answer = client.chat(**ask("What is the capital of France?"))
    assert answer.message.content == "The capital of France is Paris."
    assert (answer.done, answer.done_reason) == (True, "stop")
    pieces = list(client.chat(**ask("Count to 50."), stream=True))
    assert "".join(piece.message.content or "" for piece in pieces) == COUNT
    assert [piece.done for piece in pieces].index(True) == len(pieces) - 1
    assert (pieces[-1].eval_count or 0) > 10
    assert (pieces[-1].total_duration or 0) > 0


@pytest.mark.clients(98)
async def test_chats_without_blocking(async_client: ollama.AsyncClient) -> None:
    answer = await async_client.chat(**ask("hi"))
    assert answer.message.content == DIALOGUES["hi"].reply
    pieces = [piece async for piece in await async_client.chat(**ask("hi"), stream=True)]
    assert "".join(piece.message.content or "" for piece in pieces) == DIALOGUES["hi"].reply


@pytest.mark.clients(98, 99)
def test_a_tool_loop(client: ollama.Client) -> None:
    """The package makes the tool of a function, and sends its own messages back."""
    tools = list(DIALOGUES["two calls"].tools)
    messages: list[Any] = [{"role": "user", "content": TWO_CITIES_QUESTION}]
    first = client.chat("scripted", messages=messages, tools=tools, options=GREEDY)
    messages.append(first.message)
    for call in first.message.tool_calls or ():
        result = get_weather(**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    assert len(messages) == 4
    last = client.chat("scripted", messages=messages, tools=tools, options=GREEDY)
    assert last.message.content == DIALOGUES["after two calls"].reply


def test_a_function_is_a_tool(client: ollama.Client) -> None:
    pieces = list(client.chat(**ask(PARIS_QUESTION), tools=[get_weather, get_time], stream=True))
    calls = [call.function for piece in pieces for call in piece.message.tool_calls or ()]
    assert [(call.name, call.arguments) for call in calls] == [("get_weather", {"city": "Paris"})]


@pytest.mark.clients(99)
def test_thinking(client: ollama.Client) -> None:
    answer = client.chat(**ask(SUM_QUESTION), think=True)
    assert (answer.message.thinking or "").strip() == SUM_THOUGHT
    assert answer.message.content == "The answer is 42."
    assert client.chat(**ask(SUM_QUESTION), think=False).message.thinking is None


@pytest.mark.clients(98)
def test_generating(client: ollama.Client) -> None:
    first = client.generate("scripted", "My name is Ada.", options=GREEDY)
    assert first.response == "Nice to meet you, Ada."
    again = client.generate(
        "scripted", "What is my name?", context=first.context, options=GREEDY, stream=True
    )
    assert "".join(piece.response or "" for piece in again) == "Your name is Ada."
    assert client.generate("scripted").done_reason == "load"


@pytest.mark.clients(96, 100)
def test_models(client: ollama.Client) -> None:
    assert {model.model for model in client.list().models} >= {"scripted", "acme/twin"}
    shown = client.show("scripted:latest")
    assert {"completion", "tools", "thinking", "insert"} == set(shown.capabilities or ())
    client.generate("scripted")
    assert "scripted" in {model.model for model in client.ps().models}
    assert client.pull("scripted").status == "success"
    assert [step.status for step in client.pull("scripted", stream=True)][-1] == "success"


@pytest.mark.clients(47, 101)
def test_errors(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="'absent' was not found") as missing:
        client.chat("absent", messages=[{"role": "user", "content": "hi"}])
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="reads text only") as refused:
        client.generate("scripted", "What is this?", images=[b"\x89PNG"])
    assert refused.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="'absent' was not found"):
        client.delete("absent")


def test_a_second_name(client: ollama.Client) -> None:
    assert client.copy("scripted", "second:1b").status == "success"
    assert "second:1b" in {model.model for model in client.list().models}
    assert client.chat(**{**ask("hi"), "model": "second:1b"}).message.content
    assert client.delete("second:1b").status == "success"
    names = {model.model for model in client.list().models}
    assert ("second:1b" in names, "scripted" in names) == (False, True)


def test_a_key_goes_as_a_bearer(models: Any) -> None:
    with serving(models, Settings(api_keys=("sesame",))) as served:
        host = served.base_url.removesuffix("/v1")
        with ollama.Client(host=host) as stranger, pytest.raises(ollama.ResponseError) as refused:
            stranger.list()
        assert refused.value.status_code == 401
        headers = {"Authorization": "Bearer sesame"}
        with ollama.Client(host=host, headers=headers) as client:
            assert client.chat(**ask("hi")).message.content == DIALOGUES["hi"].reply
