"""API keys, in each of the headers that clients use."""

from __future__ import annotations

import pytest

from maxi_mlx.core.settings import Settings
from tests.server.running import Start

KEYED = Settings(api_keys=("first-key", "second-key"))


@pytest.mark.clients(57)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer anything"},
        {"Authorization": "Basic eDp5"},
        {"x-api-key": ""},
        {"api-key": "anything"},
    ],
    ids=str,
)
async def test_point_57_without_keys_anything_passes(start: Start, headers: dict[str, str]) -> None:
    client = await start()
    assert (await client.get("/v1/models", headers=headers)).status == 200


@pytest.mark.clients(57)
@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer first-key"},
        {"Authorization": "Bearer second-key"},
        {"authorization": "bearer  second-key "},
        {"X-Api-Key": "first-key"},
        {"x-api-key": "second-key"},
        {"api-key": "first-key"},
        {"Authorization": "Bearer wrong", "x-api-key": "first-key"},
        {"Authorization": "Basic eDp5", "api-key": "second-key"},
    ],
    ids=str,
)
async def test_point_57_a_right_key_passes(start: Start, headers: dict[str, str]) -> None:
    client = await start(KEYED)
    assert (await client.get("/v1/models", headers=headers)).status == 200


@pytest.mark.clients(46, 57)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "first-key"},
        {"Authorization": "Basic first-key"},
        {"Authorization": "Bearer first-key second-key"},
        {"Authorization": "Bearer first-ke"},
        {"Authorization": "Bearer first-key1"},
        {"Authorization": "Bearer FIRST-KEY"},
        {"Authorization": "Bearer schlüssel"},
        {"x-api-key": "Bearer first-key"},
        {"api-key": "wrong"},
    ],
    ids=str,
)
async def test_point_57_a_wrong_key_is_401(start: Start, headers: dict[str, str]) -> None:
    client = await start(KEYED)
    for method, path in [
        ("GET", "/v1/models"),
        ("HEAD", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/cache/stats"),
        ("GET", "/nowhere"),
    ]:
        answer = await client.send(method, path, headers=headers)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        if method != "HEAD":
            assert answer.error["code"] == "invalid_api_key"
            assert answer.error["type"] == "authentication_error"
            assert "first-key" not in answer.error["message"]


async def test_key_bytes_that_are_not_text_are_wrong_and_do_no_harm(start: Start) -> None:
    client = await start(KEYED)
    received = await client.raw(
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Authorization: Bearer \xff\xfe\r\n\r\n"
    )
    assert received.startswith(b"HTTP/1.1 401 ")


async def test_a_key_may_hold_any_character(start: Start) -> None:
    client = await start(Settings(api_keys=("schlüssel",)))
    good = {"Authorization": "Bearer schlüssel"}
    assert (await client.get("/v1/models", headers=good)).status == 200


@pytest.mark.clients(56)
async def test_point_56_probes_need_no_key_but_say_little(start: Start) -> None:
    client = await start(KEYED)
    assert (await client.get("/")).status == 200
    assert (await client.send("HEAD", "/")).status == 200
    assert set((await client.get("/health")).json) == {"status", "version", "uptime_s"}
    full = await client.get("/v1/health", headers={"Authorization": "Bearer first-key"})
    assert set(full.json) == {"status", "version", "uptime_s", "engine", "settings"}
    assert b"first-key" not in full.body
