"""A client that leaves frees its place, whatever the engine was doing for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import STRATEGIES, Settings
from tests.server.asking import until
from tests.server.running import Client, Start

ENDLESS: dict[str, Any] = {
    "model": "long",
    "prompt": "hello",
    "max_tokens": -1,
    "logit_bias": {"0": -100, "1": -100, "2": -100, "3": -100},
}
SHORT = {"model": "long", "prompt": "hello", "max_tokens": 1}


@pytest.fixture
async def client(start: Start, long_model: Path) -> Client:
    return await start(Settings(), Root(long_model, "tests", "folders"))


async def leave_after(client: Client, body: dict[str, Any], *, busy: bool = True) -> None:
    """Sends a request and closes the connection once the engine is at work on it."""
    data = json.dumps(body).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", client.port)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    await until(lambda: client.engine.status().num_running > 0 if busy else has_come(client))
    writer.close()


def has_come(client: Client) -> bool:
    status = client.engine.status()
    return status.num_running + status.num_waiting > 0


async def assert_free(client: Client) -> None:
    await until(lambda: not has_come(client))
    # The device's own figures are read now and then; it is idle when they say so.
    await until(lambda: all(m.num_running == 0 for m in client.engine.status().loaded))
    assert (await client.post("/v1/completions", json=SHORT)).status == 200


@pytest.mark.clients(23)
@pytest.mark.parametrize("stream", [False, True])
async def test_point_23_while_it_decodes(client: Client, stream: bool) -> None:
    await leave_after(client, {**ENDLESS, "stream": stream})
    await assert_free(client)


@pytest.mark.clients(23)
@pytest.mark.parametrize("stream", [False, True])
async def test_point_23_while_it_reads_the_prompt(client: Client, stream: bool) -> None:
    assert (await client.post("/v1/completions", json=SHORT)).status == 200
    prompt = [5 + n % 90 for n in range(100_000)]
    await leave_after(client, {**ENDLESS, "prompt": prompt, "stream": stream})
    await assert_free(client)


@pytest.mark.clients(23)
@pytest.mark.parametrize("stream", [False, True])
async def test_point_23_while_the_model_loads(client: Client, stream: bool) -> None:
    await leave_after(client, {**ENDLESS, "stream": stream}, busy=False)
    await assert_free(client)


@pytest.mark.clients(23)
async def test_point_23_while_it_waits_for_a_place(start: Start, long_model: Path) -> None:
    from dataclasses import replace

    one_row = replace(STRATEGIES["balanced"], max_running_rows=1)
    client = await start(Settings(scheduler=one_row), Root(long_model, "tests", "folders"))
    running = asyncio.create_task(client.post("/v1/completions", json=ENDLESS))
    await until(lambda: client.engine.status().num_running == 1)
    waiting = asyncio.create_task(client.post("/v1/completions", json={**ENDLESS, "stream": True}))
    await until(lambda: client.engine.status().num_waiting == 1)
    waiting.cancel()
    await until(lambda: client.engine.status().num_waiting == 0)
    assert client.engine.status().num_running == 1
    running.cancel()
    await assert_free(client)
