"""Around the Messages API: paths, keys, errors in its envelope, lists of models, silent streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import KEEP_ALIVE_S
from tests.models.scripted import DIALOGUES
from tests.server.asking import is_idle, until
from tests.server.asking_messages import (
    BOTH,
    COUNTING,
    MESSAGES,
    VERSION,
    asked,
    error_of,
    text_of,
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


@pytest.mark.clients(54, 55, 58)
@pytest.mark.parametrize(
    "path", ["/messages", "/v1/v1/messages", "/v1/messages/", "/v1//messages", "/v1/messages?a=b"]
)
async def test_point_54_every_spelling_of_the_path(client: Client, path: str) -> None:
    headers = {"Anthropic-Version": "2029-01-01", "Anthropic-Beta": "a-2026-01-01,b"}
    answer = await client.post(path, json=asked(), headers=headers)
    assert text_of(answer.json) == DIALOGUES["capital"].reply


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
REFUSED: dict[str, tuple[str, str, Any, int, str]] = {
    "broken JSON": ("POST", MESSAGES, b'{"model":', 400, "invalid_request_error"),
    "no UTF-8": ("POST", MESSAGES, b'"\xff"', 400, "invalid_request_error"),
    "no messages": ("POST", COUNTING, {"model": "scripted"}, 400, "invalid_request_error"),
    "no limit": ("POST", MESSAGES, asked(max_tokens=None), 400, "invalid_request_error"),
    "an image": (
        "POST",
        MESSAGES,
        asked(messages=[{"role": "user", "content": [IMAGE]}]),
        400,
        "invalid_request_error",
    ),
    "no such model": ("POST", MESSAGES, asked(model="nobody"), 404, "not_found_error"),
    "no such model to count": ("POST", COUNTING, asked(model="nobody"), 404, "not_found_error"),
    "no such path": ("POST", MESSAGES + "/batches", {}, 404, "not_found_error"),
    "not with GET": ("GET", MESSAGES, None, 405, "invalid_request_error"),
}


@pytest.mark.clients(39, 40, 42, 47, 48, 49, 62)
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"), REFUSED.values(), ids=list(REFUSED)
)
@BOTH
@pytest.mark.usefixtures("patient_door")
async def test_point_47_refusals_in_anthropics_envelope(
    client: Client, method: str, path: str, body: Any, status: int, kind: str, stream: bool
) -> None:
    if isinstance(body, dict):
        body = json.dumps({**body, "stream": stream}).encode()
    answer = await client.send(method, path, data=body)
    assert (answer.status, error_of(answer)["type"]) == (status, kind)


@pytest.mark.clients(57)
async def test_point_57_keys(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(api_keys=("key",)), Root(scripted_model, "tests", "folders"))
    for headers in ({"X-Api-Key": "key"}, {"Authorization": "Bearer key"}):
        assert (await client.post(MESSAGES, json=asked(), headers=headers)).status == 200
    for headers in ({}, {"X-Api-Key": "other"}):
        answer = await client.post(MESSAGES, json=asked(), headers=headers)
        assert (answer.status, error_of(answer)["type"]) == (401, "authentication_error")


@pytest.mark.clients(52, 53)
async def test_point_53_models_as_the_header_asks(client: Client) -> None:
    page = (await client.get("/v1/models?limit=1", headers=VERSION)).json
    assert [model["type"] for model in page["data"]] == ["model"]
    assert page["has_more"]
    assert page["first_id"] == page["last_id"] == page["data"][0]["id"]
    model = (await client.get("/v1/models/scripted", headers=VERSION)).json
    assert (model["display_name"], model["lifecycle"]) == ("scripted", "active")
    unknown = await client.get("/v1/models/nobody", headers=VERSION)
    assert (unknown.status, error_of(unknown)["type"]) == (404, "not_found_error")
    assert (await client.get("/v1/models")).json["object"] == "list"


@pytest.mark.clients(23, 79)
@pytest.mark.usefixtures("patient_door")
async def test_pings_while_nothing_comes_and_an_end_when_the_client_leaves(
    start: Start, long_model: Path
) -> None:
    def prepare(app: web.Application) -> None:
        app[KEEP_ALIVE_S] = 0.01

    client = await start(Settings(), Root(long_model, "tests", "folders"), prepare=prepare)
    await client.post(MESSAGES, json=asked(model="long", max_tokens=1))  # loads the model
    messages = [{"role": "user", "content": "word " * 20_000}]
    ask = asked(model="long", messages=messages, stream=True)
    url = f"http://127.0.0.1:{client.port}{MESSAGES}"
    async with client.session.post(url, json=ask) as response:
        received = b""
        while received.count(b"event: ping\n") < 4:
            received += await response.content.readany()
        assert received.startswith(b"event: message_start\n")
    await until(lambda: is_idle(client))
