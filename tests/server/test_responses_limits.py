"""The Responses API's limits and mistakes: too long a context, clients that leave, wrong paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models import build_model
from tests.server.asking import is_idle, until
from tests.server.asking_responses import (
    PATH,
    endless,
    made,
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


@pytest.fixture
def short_model(tmp_path: Path) -> Path:
    return build_model(tmp_path / "short", "llama", max_position_embeddings=200)


@pytest.mark.clients(41)
async def test_a_conversation_longer_than_the_context(start: Start, short_model: Path) -> None:
    client = await start(Settings(), Root(short_model, "tests", "folders"))
    turns: list[dict[str, Any]] = []
    for number in range(12):
        turns.append({"role": "user", "content": f"question {number} " + "word " * 8})
        turns.append({"role": "assistant", "content": "answer"})
    asked = {"model": "short", "input": turns[:-1], "max_output_tokens": 4, "instructions": "Be."}
    refused = await client.post(PATH, json=asked)
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    assert refused.error["param"] == "input"
    response = await made(client, {**asked, "truncation": "auto"})
    assert response["truncation"] == "auto"
    assert 100 < response["usage"]["input_tokens"] <= 196
    # The last turn stays, however long it is.
    alone = {**asked, "input": "word " * 200, "truncation": "auto"}
    assert (await client.post(PATH, json=alone)).error["code"] == "context_length_exceeded"


@pytest.mark.clients(23)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_leaves_ends_generation(client: Client, stream: bool) -> None:
    if stream:
        url = f"http://127.0.0.1:{client.port}{PATH}"
        async with client.session.post(url, json=endless(stream=True)) as response:
            while b"response.output_text.delta" not in await response.content.readuntil(b"\n\n"):
                pass
    else:
        leaving = asyncio.create_task(client.post(PATH, json=endless(stream=False)))
        await until(lambda: client.engine.status().num_running > 0)
        leaving.cancel()
    await until(lambda: is_idle(client))


async def test_paths(client: Client) -> None:
    for method, path, status in (
        ("GET", PATH, 405),
        ("GET", f"{PATH}/resp_x", 404),
        ("GET", f"{PATH}/resp_x/input_items", 404),
        ("DELETE", f"{PATH}/resp_x", 404),
        ("POST", f"{PATH}/resp_x/cancel", 404),
        ("POST", f"{PATH}/resp_x", 405),
        ("POST", f"{PATH}/compact", 400),
        ("POST", f"{PATH}/compact/x/y", 404),
        ("POST", "/responses/", 400),
        ("POST", "/v1//responses/input_tokens", 400),
    ):
        answer = await client.send(method, path)
        assert answer.status == status, (method, path)
        assert answer.error
