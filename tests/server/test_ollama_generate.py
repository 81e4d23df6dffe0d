"""Ollama's generate over the scripted model; loading, and what becomes of streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import KEEP_ALIVE_S
from tests.models.scripted import COMPLETIONS, DIALOGUES, SUM_THOUGHT
from tests.server.asking import is_idle, until
from tests.server.asking_ollama import (
    BOTH,
    asked,
    chat,
    generated,
    lines_of,
)
from tests.server.running import Client, Start, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


@pytest_asyncio.fixture(loop_scope="module")
async def start() -> AsyncIterator[Start]:
    """For those that need a server of their own."""
    async with started() as start:
        yield start


@pytest.fixture(scope="session")
def folders(scripted_model: Path, long_model: Path) -> list[Root]:
    return [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]


@BOTH
@pytest.mark.clients(98)
async def test_point_98_generate_asks_as_a_user(client: Client, stream: bool) -> None:
    answer = await generated(
        client, {"prompt": "Who are you?", "system": "You are a pirate."}, stream=stream
    )
    assert answer["response"] == "Arr, I am a pirate!"
    assert answer["done_reason"] == "stop"


@BOTH
async def test_context_goes_on_with_the_conversation(client: Client, stream: bool) -> None:
    first = await generated(client, {"prompt": "My name is Ada."}, stream=stream)
    assert first["response"] == "Nice to meet you, Ada."
    again = {"prompt": "What is my name?", "context": first["context"]}
    assert (await generated(client, again, stream=stream))["response"] == "Your name is Ada."


@BOTH
async def test_raw_prompts_and_suffixes_are_read_as_they_are(client: Client, stream: bool) -> None:
    capital, middle = COMPLETIONS["capital"], COMPLETIONS["middle"]
    answer = await generated(client, {"prompt": capital.prompt, "raw": True}, stream=stream)
    assert answer["response"] == capital.reply
    assert "context" not in answer
    ask = {"prompt": middle.prompt, "suffix": middle.suffix}
    assert (await generated(client, ask, stream=stream))["response"] == middle.reply


@BOTH
async def test_generate_thinks(client: Client, stream: bool) -> None:
    ask = {"prompt": "What is 17 + 25?", "think": True}
    answer = await generated(client, ask, stream=stream)
    assert (answer["thinking"].strip(), answer["response"]) == (SUM_THOUGHT, "The answer is 42.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "nothing", "content"),
    [
        ("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
        ("/api/generate", {"prompt": ""}, {"response": ""}),
        ("/api/generate", {}, {"response": ""}),
    ],
    ids=["chat", "generate", "no prompt"],
)
@pytest.mark.clients(98)
async def test_point_98_a_request_without_a_prompt_loads(
    start: Start, folders: list[Root], path: str, nothing: dict[str, Any], content: dict[str, Any]
) -> None:
    client = await start(Settings(), *folders)
    assert (await client.get("/api/ps")).json == {"models": []}
    answer = (await client.post(path, json={"model": "scripted:latest", **nothing})).json
    assert answer.pop("created_at")
    assert answer == {"model": "scripted:latest", **content, "done": True, "done_reason": "load"}
    [model] = (await client.get("/api/ps")).json["models"]
    assert model["name"] == "scripted"
    for nought in (0, "0", "0s"):
        ask = {"model": "scripted", "keep_alive": nought, **nothing}
        assert (await client.post(path, json=ask)).json["done_reason"] == "unload"
    missing = await client.post(path, json={"model": "absent", "keep_alive": 0, **nothing})
    assert missing.status == 404


@pytest.mark.clients(99)
async def test_point_99_keep_alive_is_taken(client: Client) -> None:
    for keep_alive in (-1, 0, 300, 0.5, "5m", "-1", "1h30m"):
        answer = await chat(client, asked("hi", keep_alive=keep_alive))
        assert answer["message"]["content"] == DIALOGUES["hi"].reply


@pytest.mark.clients(98)
async def test_point_98_the_default_is_a_stream(client: Client) -> None:
    assert len(lines_of(await client.post("/api/chat", json=asked("count")))) > 10


async def test_a_silent_stream_is_kept_alive_by_lines_that_say_nothing(
    start: Start, folders: list[Root]
) -> None:
    def hurry(app: web.Application) -> None:
        app[KEEP_ALIVE_S] = 0.01

    client = await start(Settings(), *folders, prepare=hurry)
    prompt = "hello " * 800
    ask = {"model": "long", "prompt": prompt, "raw": True, "options": {"num_predict": 2}}
    lines = lines_of(await client.post("/api/generate", json=ask))
    silent = [line for line in lines if line["response"] == "" and not line["done"]]
    assert silent
    assert all(line["model"] == "long" for line in lines)


async def test_a_client_that_leaves_frees_its_row(client: Client) -> None:
    ask = {"model": "long", "prompt": "hello", "raw": True, "options": {"num_predict": -1}}
    url = f"http://127.0.0.1:{client.port}/api/generate"
    async with client.session.post(url, json=ask) as response:
        await response.content.readline()
        assert not is_idle(client)
    await until(lambda: is_idle(client))


async def test_a_stream_that_breaks_ends_with_an_error(start: Start, folders: list[Root]) -> None:
    client = await start(Settings(), *folders)
    ask = {"model": "long", "prompt": "hello", "raw": True, "options": {"num_predict": -1}}

    async def ended() -> list[dict[str, Any]]:
        return lines_of(await client.post("/api/generate", json=ask))

    task = asyncio.create_task(ended())
    await until(lambda: client.engine.status().num_running > 0)
    await asyncio.sleep(0.2)
    await client.engine.close()
    last = (await task)[-1]
    assert set(last) == {"error"}
    assert isinstance(last["error"], str)
