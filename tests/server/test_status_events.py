"""GET /v1/status, its stream, and requests that are ended before their time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.settings import Settings
from maxi_mlx.server import feeds, status
from maxi_mlx.server.feeds import Feeds
from maxi_mlx.server.keys import RUNNING, WATCHERS
from maxi_mlx.server.record import RequestRecord
from tests.openapi import answer_schema, closed, described
from tests.server import asking_responses
from tests.server.asking import CHAT, TEXT, body, is_idle, long_text, until
from tests.server.running import Client, Start


@pytest.fixture
async def client(start: Start, scripted_model: Path, long_model: Path) -> Client:
    return await start(
        Settings(), Root(scripted_model, "tests", "folders"), Root(long_model, "tests", "folders")
    )


async def snapshots(client: Client) -> AsyncIterator[dict[str, Any]]:
    url = f"http://127.0.0.1:{client.port}/v1/status/events"
    async with client.session.get(url) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        async for line in response.content:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


async def now(client: Client) -> dict[str, Any]:
    return dict((await client.get("/v1/status")).json)


async def under_way(client: Client, phase: str) -> dict[str, Any]:
    """The one request, once it is that far."""
    async with asyncio.timeout(30):
        while True:
            requests = (await now(client))["requests"]
            if requests and requests[0]["phase"] == phase:
                return dict(requests[0])
            await asyncio.sleep(0.02)


async def test_status_tells_of_models_and_tokens(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "RATE_S", 30.0)
    before = await now(client)
    assert (before["models"], before["requests"], before["completion_tokens"]) == ([], [], 0)
    answer = (await client.post(CHAT, json=body())).json
    after = await now(client)
    assert after["completion_tokens"] == answer["usage"]["completion_tokens"]
    assert after["tokens_per_second"] > 0
    [model] = after["models"]
    assert (model["id"], model["state"], model["is_pinned"]) == ("scripted", "ready", False)
    assert after["weight_bytes"] == model["weight_bytes"] > 0


async def test_every_snapshot_is_as_described(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "BETWEEN_SNAPSHOTS_S", 0.05)
    document = closed(described())
    schema = answer_schema(document, "/v1/status/events", "text/event-stream", method="get")
    answering = asyncio.create_task(client.post(TEXT, json=long_text()))
    phases = []
    async for snapshot in snapshots(client):
        Draft202012Validator(schema).validate(snapshot)
        phases += [request["phase"] for request in snapshot["requests"]]
        if "writing" in phases and snapshot["requests"][0]["completion_tokens"] > 5:
            break
    assert snapshot["requests"][0]["tokens_per_second"] > 0
    assert (snapshot["requests"][0]["model"], snapshot["requests"][0]["api"]) == ("long", "openai")
    answering.cancel()
    await until(lambda: is_idle(client))
    await until(lambda: client.app[WATCHERS].num_watching == 0)
    assert (await now(client))["requests"] == []


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_cancelled_request_ends_in_words(client: Client, stream: bool) -> None:
    answering = asyncio.create_task(client.post(TEXT, json=long_text(stream=stream)))
    request = await under_way(client, "writing")
    answer = await client.post(f"/v1/status/requests/{request['id']}/cancel")
    assert (answer.status, answer.json) == (200, {"id": request["id"], "cancelled": True})
    ended = await answering
    last = ended.body.strip().split(b"\n\n")[-1].removeprefix(b"data: ")
    error = json.loads(last)["error"]
    assert error["code"] == "cancelled"
    assert "cancelled" in error["message"]
    assert ended.headers["X-Request-Id"] == request["id"]
    await until(lambda: is_idle(client))
    again = await client.post(f"/v1/status/requests/{request['id']}/cancel")
    assert (again.status, again.error["code"]) == (404, "not_found")


async def test_a_cancelled_background_response_says_that_it_is(client: Client) -> None:
    asked = {"model": "long", "input": "hello", "background": True, "max_output_tokens": 100_000}
    response = (await client.post("/v1/responses", json=asked)).json
    request = await under_way(client, "writing")
    assert (await client.post(f"/v1/status/requests/{request['id']}/cancel")).status == 200
    got = (await client.get(f"/v1/responses/{response['id']}")).json
    assert got["status"] == "cancelled"


async def test_work_without_events_can_be_ended() -> None:
    feeds, record = Feeds(), RequestRecord(method="POST", path="/v1/embeddings")

    async def work() -> None:
        await asyncio.sleep(60)

    waiting = asyncio.create_task(feeds.waited_for(record, work()))
    await asyncio.sleep(0)
    feed = feeds.get(record.id)
    assert feed is not None
    feed.end(InvalidRequest("cancelled"))
    with pytest.raises(InvalidRequest, match="cancelled"):
        await waiting
    assert list(feeds) == []


async def test_the_stream_ends_when_the_server_does(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "BETWEEN_SNAPSHOTS_S", 60.0)
    seen = []
    async for snapshot in snapshots(client):
        seen.append(snapshot)
        client.app[WATCHERS].end()
    assert len(seen) == 2
    await until(lambda: client.app[RUNNING].num_running == 0)


async def test_head_has_no_events(client: Client) -> None:
    response = (await client.post("/v1/responses", json=asking_responses.ask())).json
    for path in ("/v1/status/events", f"/v1/responses/{response['id']}?stream=true"):
        asked = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        last = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        first, _, second = (await client.raw(asked, last)).partition(b"\r\n\r\n")
        assert b"text/event-stream" in first
        assert second.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_whoever_stops_reading_is_left(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "BETWEEN_SNAPSHOTS_S", 0.0)
    monkeypatch.setattr(status, "STANDSTILL_S", 0.1)
    _, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=1024)
    writer.write(b"GET /v1/status/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: client.app[WATCHERS].num_watching == 1)
    await until(lambda: client.app[WATCHERS].num_watching == 0)
    writer.close()


async def test_status_needs_the_key(start: Start) -> None:
    client = await start(Settings(api_keys=("k",)))
    for path in ("/v1/status", "/v1/status/events"):
        assert (await client.get(path)).status == 401
    assert (await client.post("/v1/status/requests/req-1/cancel")).status == 401


def test_the_rate_is_that_of_the_last_seconds() -> None:
    at_s = [10.0]
    feeds = Feeds(lambda: at_s[-1])
    assert feeds.tokens_per_second() == 0
    for moment_s in (10.0, 10.5, 11.0, 11.5):
        at_s.append(moment_s)
        feeds.count_tokens(5)
    assert feeds.tokens_per_second() == 10
    at_s.append(12.7)
    assert feeds.tokens_per_second() == 5
    at_s.append(60.0)
    assert (feeds.tokens_per_second(), feeds.num_tokens) == (0, 20)
