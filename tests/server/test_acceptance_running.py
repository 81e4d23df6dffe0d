"""What others were seen to get wrong where requests meet, something breaks, or the end comes."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import STRATEGIES, Settings
from maxi_mlx.engine import scheduler
from maxi_mlx.engine.batch import StepToken
from maxi_mlx.engine.mailbox import Outbox
from maxi_mlx.engine.reading import Reading, SliceEnd
from tests.engine.asking import settled
from tests.models.scripted import COUNT, DIALOGUES, STORY
from tests.server.asking import (
    CHAT,
    TEXT,
    body,
    is_idle,
    long_text,
    said,
    until,
)
from tests.server.running import Client, Start

SLICE_TOKENS = 16
SCHEDULER = replace(STRATEGIES["balanced"], prefill_slice_tokens=SLICE_TOKENS)


@pytest.fixture
def roots(scripted_model: Path, long_model: Path) -> list[Root]:
    return [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]


@pytest.fixture
async def client(start: Start, roots: list[Root]) -> Client:
    return await start(Settings(scheduler=SCHEDULER), *roots)


async def test_row_long_prompt_beside_a_running_stream(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []  # on the device
    post_token, read = scheduler.post_token, Reading.read

    def noted_token(token: StepToken, outbox: Outbox) -> bool:
        order.append("token")
        return post_token(token, outbox)

    def noted_slice(reading: Reading, slice_s: float, left_bytes: int) -> SliceEnd:
        order.append("slice")
        return read(reading, slice_s, left_bytes)

    monkeypatch.setattr(scheduler, "post_token", noted_token)
    monkeypatch.setattr(Reading, "read", noted_slice)
    runner = asyncio.create_task(client.post(TEXT, json=long_text(stream=True)))
    await until(lambda: order.count("token") > 5)
    order.clear()
    answer = await client.post(TEXT, json=long_text("word " * 600, max_tokens=1))
    runner.cancel()
    num_slices = answer.json["usage"]["prompt_tokens"] // SLICE_TOKENS
    assert num_slices > 30
    # Between any two slices the running answer goes on, and it never waits for the whole prompt.
    together = [len(list(same)) for kind, same in itertools.groupby(order) if kind == "slice"]
    assert len(together) >= num_slices - 3
    assert max(together) <= 2


async def test_row_same_seed_alone_and_among_neighbours(client: Client) -> None:
    seeded = long_text("One two", max_tokens=40, temperature=1, seed=7, logprobs=1)
    alone = (await client.post(TEXT, json=seeded)).json["choices"][0]
    other = (await client.post(TEXT, json={**seeded, "seed": 8})).json["choices"][0]
    assert other["text"] != alone["text"]
    prompts = ["hello", "Please write a list", "The weather"]
    neighbours = [
        asyncio.create_task(client.post(TEXT, json=long_text(prompt, temperature=1, stream=True)))
        for prompt in prompts
    ]
    await until(lambda: client.engine.status().num_running == 3)
    among = (await client.post(TEXT, json=seeded)).json["choices"][0]
    assert client.engine.status().num_running == 3  # it did not wait for them, nor they for it
    for task in neighbours:
        task.cancel()
    assert among["text"] == alone["text"]
    assert among["logprobs"]["tokens"] == alone["logprobs"]["tokens"]


@pytest.mark.clients(23)
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_row_client_drops_a_whole_answer(client: Client, path: str) -> None:
    message = {"role": "user", "content": "hello"}
    ask = long_text() if path == TEXT else long_text(messages=[message])
    leaving = asyncio.create_task(client.post(path, json=ask))
    await until(lambda: any(model.num_running for model in client.engine.status().loaded))
    leaving.cancel()
    await until(lambda: is_idle(client))
    assert client.engine.status().kv_cache_bytes == 0


async def test_row_penalties_beside_a_request_without(client: Client) -> None:
    penalised = body("count", presence_penalty=1, repetition_penalty=1.3, stream=True)
    _, count, story = await asyncio.gather(
        client.post(CHAT, json=penalised),
        said(client, CHAT, body("count"), stream=True),
        said(client, CHAT, body("story"), stream=False),
    )
    assert (count[0], story[0]) == (COUNT, STORY)


@pytest.mark.slow
@pytest.mark.parametrize("num_tokens", [1, 2047, 2048, 2049, 4097])
async def test_row_prompt_of_just_so_many_tokens(client: Client, num_tokens: int) -> None:
    ids = [10 + n % 400 for n in range(num_tokens)]
    answer = await client.post(TEXT, json=long_text(ids, max_tokens=4))
    assert answer.status == 200
    assert answer.json["usage"]["prompt_tokens"] == num_tokens
    assert answer.json["usage"]["completion_tokens"] == 4


async def test_row_many_distinct_prompts_and_few_places(start: Start, roots: list[Root]) -> None:
    few = replace(SCHEDULER, max_running_rows=2)
    client = await start(Settings(scheduler=few), *roots)
    names = ["capital", "greeting", "hi", "name", "list", "code", "emoji", "json"]
    answers = await asyncio.gather(
        *(
            said(client, CHAT, body(name), stream=stream)
            for name in names
            for stream in (False, True)
        )
    )
    expected = [DIALOGUES[name].reply for name in names for _ in (0, 1)]
    assert [text for text, _, _ in answers] == expected


@pytest.mark.slow
async def test_row_memory_comes_back_after_500_requests(client: Client) -> None:
    async def active_bytes() -> int:
        await until(lambda: is_idle(client))
        await settled(client.engine)
        return int((await client.get("/v1/cache/stats")).json["memory"]["active_bytes"])

    async def ask(count: int) -> None:
        for _ in range(count // 5):
            asked = [client.post(CHAT, json=body("hi", seed=n, max_tokens=8)) for n in range(5)]
            assert all(answer.status == 200 for answer in await asyncio.gather(*asked))

    await ask(50)
    before = await active_bytes()
    await ask(500)
    assert await active_bytes() <= before * 1.01


class TestHealthAfterAFault:
    @pytest.fixture
    async def broken_step(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        """The tenth step from now fails on the device, as a kernel would; all others are real."""
        await said(client, CHAT, body(), stream=False)
        from maxi_mlx.engine.batch import DecodeBatch

        steps = itertools.count()
        step = DecodeBatch.step

        def fail_once(batch: DecodeBatch) -> Any:
            if next(steps) == 10:
                raise RuntimeError("no such kernel")
            return step(batch)

        monkeypatch.setattr(DecodeBatch, "step", fail_once)

    @pytest.mark.clients(18)
    @pytest.mark.usefixtures("broken_step")
    async def test_row_health_after_a_fault_in_a_stream(self, client: Client) -> None:
        answer = await client.post(CHAT, json=body("count", stream=True))
        assert answer.status == 200
        *chunks, last, end = answer.body.decode().split("\n\n")
        assert end == ""
        assert len(chunks) > 5
        error = json.loads(last.removeprefix("data: "))["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["code"], error["type"]) == ("engine_failed", "server_error")
        await self.assert_true(client)

    @pytest.mark.clients(46, 48)
    @pytest.mark.usefixtures("broken_step")
    async def test_row_health_after_a_fault_in_a_whole_answer(self, client: Client) -> None:
        answer = await client.post(CHAT, json=body("count"))
        assert answer.status == 500
        assert answer.error["code"] == "engine_failed"
        await self.assert_true(client)

    async def assert_true(self, client: Client) -> None:
        """Health says "ok", so the next requests have to be answered."""
        health = await client.get("/health")
        assert (health.status, health.json["status"]) == (200, "ok")
        for stream in (True, False):
            async with asyncio.timeout(30):
                assert (await said(client, CHAT, body("count"), stream=stream))[0] == COUNT

    async def test_row_health_of_a_device_that_is_not_there(
        self, start: Start, roots: list[Root]
    ) -> None:
        client = await start(
            Settings(backend="cuda" if sys.platform == "darwin" else "metal"), *roots
        )
        with pytest.raises(Exception, match="backend"):
            await client.engine.wait_ready()
        health = await client.get("/health")
        assert (health.status, health.json["status"]) == (503, "failed")
        for stream in (True, False):
            answer = await client.post(CHAT, json=body(stream=stream))
            assert answer.status == 503
            assert answer.error["message"] == health.json["engine"]["fault"]


@asynccontextmanager
async def served(model: Path, home: Path) -> AsyncIterator[tuple[str, Process]]:
    """`maxi-mlx serve` as a user runs it: its address and its process."""
    environment = os.environ | {"HOME": str(home), "MAXI_MLX_HOME": str(home)}
    log = home / "serve.log"
    command = ["-m", "maxi_mlx", "serve", "--port", "0", "--model-dir", str(model)]
    with log.open("w") as output:
        server = await asyncio.create_subprocess_exec(
            sys.executable, *command, env=environment, stdout=output, stderr=output
        )

    def address() -> str:
        match = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        return match[0] if match else ""

    try:
        await until(lambda: address() != "")
        yield address(), server
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


@pytest.mark.slow
@pytest.mark.parametrize("num_signals", [1, 2])
async def test_row_sigterm_drains_and_a_second_ends_at_once(
    long_model: Path, tmp_path: Path, num_signals: int
) -> None:
    ask = long_text(stream=True, max_tokens=400 if num_signals == 1 else -1)
    async with (
        served(long_model, tmp_path) as (address, server),
        aiohttp.ClientSession() as session,
        session.post(address + TEXT, json=ask) as running,
    ):
        while not (await running.content.readline()).startswith(b"data: {"):
            pass  # the model loads meanwhile, and comments keep the connection alive
        for _ in range(num_signals):
            server.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
        rest = await running.content.read()
        async with asyncio.timeout(30):
            code = await server.wait()
    if num_signals == 1:
        assert rest.endswith(b"data: [DONE]\n\n")
        assert b'"finish_reason":"length"' in rest
        assert code == 0
    else:
        assert b'"code":"unavailable"' in rest
