"""Many bad requests, several at once: each gets a proper answer, and none leaves a trace."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from maxi_mlx.api.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS
from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import DIALOGUES
from tests.server.running import Client, Start

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
NUM_AT_ONCE = 8

JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    -2,
    0.5,
    1e308,
    2**63,
    2**70,
    "",
    "text",
    "\x00",
    "\u2028",
    "👩‍👩‍👧",
    "x" * 5000,
    [],
    [None],
    [[]],
    [[5]],
    [-1],
    [10**9],
    [1.5],
    ["a", 5],
    {},
    {"a": {}},
    {"5": 100},
    {"999999999": 1},
    {"x": "y"},
    {"type": "json_schema"},
    [{}],
    [{"role": "user"}],
    [{"role": "nobody", "content": "hi"}],
    [{"role": "user", "content": [{"type": "video"}]}],
    [{"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{"}}]}],
    [{"role": "tool", "content": "x"}],
)
FIELDS = sorted(CHAT_FIELDS.keys() | COMPLETION_FIELDS.keys() - {"max_tokens"})
RAW = (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 500, b'"\\ud800"', b"\xff", b"[" * 9000)
TYPES = ("", "text/html", "multipart/form-data", "application/json; charset=utf-16", "\t", ";;;")
PATHS = (CHAT, TEXT, "/v1/models/", "/v1/cache/stats", "/health", "/%00", "/v1/x")


def valid(chance: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "scripted", "max_tokens": 2}
    if chance.random() < 0.6:
        return body | {"messages": list(DIALOGUES["hi"].messages)}
    return body | {"prompt": "hi"}


def mutated(chance: random.Random) -> bytes:
    body = valid(chance)
    for _ in range(chance.randint(1, 2)):
        body[chance.choice(FIELDS)] = chance.choice(JUNK)
    data = json.dumps(body, ensure_ascii=chance.random() < 0.5).encode()
    kind = chance.random()
    if kind < 0.1:
        return data[: chance.randrange(len(data))]
    if kind < 0.2:
        place = chance.randrange(len(data))
        return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    if kind < 0.3:
        field = json.dumps(chance.choice(FIELDS)).encode()
        return data[:-1] + b"," + field + b":" + chance.choice(RAW) + b"}"
    if kind < 0.33:
        return chance.randbytes(chance.randrange(200))
    return data


async def attack(client: Client, chance: random.Random) -> None:
    data = mutated(chance)
    path = CHAT if b'"messages"' in data else TEXT
    if chance.random() < 0.1:
        path = chance.choice(PATHS)
    method = "POST" if chance.random() < 0.9 else chance.choice(("GET", "PUT", "HEAD", "OPTIONS"))
    headers = {"Content-Type": chance.choice(TYPES)} if chance.random() < 0.2 else {}
    if chance.random() < 0.05:  # leaves before the answer
        try:
            await client.send(method, path, data=data, timeout=aiohttp.ClientTimeout(0.005))
        except TimeoutError:
            return
    answer = await client.send(method, path, data=data, headers=headers)
    said = (method, path, headers, data[:2000], answer.status, answer.body[:500])
    assert answer.status < 500, said
    if answer.status >= 400 and method != "HEAD":
        assert answer.headers["Content-Type"] == "application/json", said
        assert answer.error, said


@pytest.mark.slow
@pytest.mark.clients(25, 48)
@pytest.mark.parametrize("count", [300, pytest.param(1500, marks=pytest.mark.slow)])
async def test_point_25_bad_requests_leave_the_server_well(
    start: Start, scripted_model: Path, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = await start(Settings(), Root(scripted_model, "tests", "folders"))
    chance = random.Random(count)
    limit = asyncio.Semaphore(NUM_AT_ONCE)

    async def one(seed: int) -> None:
        async with limit:
            await attack(client, random.Random(seed))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one(chance.randrange(2**32)))
    greeting = DIALOGUES["hi"]
    body = {"model": "scripted", "messages": greeting.messages, "temperature": 0}
    answer = await client.post(CHAT, json=body)
    assert answer.json["choices"][0]["message"]["content"] == greeting.reply
    assert (await client.get("/health")).json["status"] == "ok"
    assert client.engine.status().num_running == 0
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.slow
@pytest.mark.clients(25)
async def test_point_25_bytes_that_are_no_request(start: Start) -> None:
    client = await start()
    chance = random.Random(25)
    request = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    pieces = []
    for _ in range(60):
        data = bytearray(request)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        pieces.append(bytes(data[: chance.randint(1, len(data))]))
    for received in await asyncio.gather(*(client.raw(piece, within_s=1) for piece in pieces)):
        assert b" 500 " not in received[:40]
    assert (await client.get("/health")).status == 200
