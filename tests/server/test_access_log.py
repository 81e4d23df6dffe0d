"""The line that each request leaves in the log: what people look for first, the id last."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.access_log import QUIET_ROUTES
from maxi_mlx.server.routes import TABLE, Route
from tests.server import asking_responses
from tests.server.asking import until
from tests.server.running import Start
from tests.server.test_delivery import GOOD, STARTED, Endless, leave, played, serving


async def test_a_line_of_an_endpoint_is_short_and_its_fields_are_whole(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start()
    await client.post("/v1/chat/completions", data=b'{"model": "none", "messages": []}')
    await client.get("/v1/models")
    refused, listed = caplog.records
    assert re.fullmatch(
        r"status=400 reason=invalid_request_error total_s=[\d.]+ path=/v1/chat/completions "
        r"request=req-[0-9a-f]{32}",
        refused.getMessage(),
    )
    fields = refused.__dict__["fields"]
    assert (fields["protocol"], fields["method"]) == ("openai", "POST")
    assert re.fullmatch(
        r"status=200 total_s=[\d.]+ method=GET path=/v1/models request=req-[0-9a-f]{32}",
        listed.getMessage(),
    )


async def test_a_name_out_of_a_request_can_forge_no_line(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start()
    name = "x\n21:00:00_INFO_forged\x1b[2J\x9b"
    await client.post("/v1/completions", json={"model": name, "prompt": "a"})
    [record] = caplog.records
    assert record.getMessage().isprintable()
    assert r"\n21:00:00_INFO_forged\u001b[2J\u009b" in record.getMessage()


async def test_the_log_has_one_line_for_each_request(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await serving(start, played(*GOOD))
    for path in ("/stream", "/whole", "/health", "/nowhere"):
        await client.get(path)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3  # not for /health
    for line in lines[:2]:
        assert line.startswith("model=tiny status=200 prompt_tokens=3 cached_tokens=0 completion")
        assert "completion_tokens=2 tokens_per_second=1.0 reason=stop first_token_s=" in line
    assert lines[2].startswith("status=404 reason=not_found total_s=")
    assert all("method=GET path=/" in line and " request=req-" in line[-46:] for line in lines)


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method}-{route.path}")
async def test_every_endpoint_has_one_line_for_a_request_it_refuses(
    start: Start, caplog: pytest.LogCaptureFixture, route: Route
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start(Settings(api_keys=("k",)))
    key = {"X-Api-Key": "k"}
    with_key = [key, {**key, "Content-Type": "image/png"}] if route.method == "POST" else []
    for headers in ({}, *with_key):
        caplog.clear()
        answer = await client.send(route.method, route.path, headers=headers, data=b"{")
        if answer.status in (200, 503):  # who needs no key, and is watched by many
            assert route.name in QUIET_ROUTES
            assert not caplog.records
            continue
        [record] = caplog.records
        fields = record.__dict__["fields"]
        assert (fields["status"], fields["path"]) == (answer.status, route.path)
        assert fields["reason"]
        # The API is named before anything of a request was read.
        assert fields.get("protocol") == route.protocol


async def test_what_breaks_in_an_answer_that_has_begun_is_told(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        raise ZeroDivisionError

    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start(prepare=lambda app: app.router.add_get("/breaks", breaks))
    with pytest.raises(aiohttp.ClientPayloadError):
        await client.get("/breaks")
    [line] = [each.getMessage() for each in caplog.records if each.name == "maxi_mlx.requests"]
    assert line.startswith("status=500 reason=internal_error total_s=")


async def test_a_response_in_the_background_has_its_line_when_it_is_made(
    start: Start, scripted_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await start(Settings(log_prompts=True), Root(scripted_model, "tests", "folders"))
    await client.engine.wait_ready()
    asked = asking_responses.ask("capital", background=True)
    begun = (await client.post("/v1/responses", json=asked)).json
    assert not caplog.records
    await until(lambda: bool(caplog.records))
    [record] = caplog.records
    fields = record.__dict__["fields"]
    assert (fields["status"], fields["reason"], fields["protocol"]) == (200, "stop", "responses")
    assert fields["completion_tokens"] > 0
    assert fields["request"].removeprefix("req-") == begun["id"].removeprefix("resp_")


async def test_the_log_knows_who_left(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx.requests")
    client = await serving(start, Endless(STARTED))
    await leave(client, after=6)
    await until(lambda: bool(caplog.records))
    [record] = caplog.records
    assert record.getMessage().startswith(
        "model=tiny status=499 prompt_tokens=3 completion_tokens="
    )
    fields = record.__dict__["fields"]
    assert fields["reason"] == "client_left"
    assert fields["completion_tokens"] >= 6
