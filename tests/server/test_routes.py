"""Every spelling of every path arrives; everything else is a 404 or a 405 in the envelope."""

from __future__ import annotations

import time

import pytest

from tests.server.running import Start

BEFORE = ["/", "/v1/", "/v1/v1/", "//v1/", "/v1//", "//"]


@pytest.mark.clients(54)
@pytest.mark.parametrize("before", BEFORE)
async def test_point_54_get_paths_in_every_spelling(start: Start, before: str) -> None:
    client = await start()
    for path in ("health", "models", "cache/stats", "cache//stats"):
        for after in ("", "/", "//", "?beta=true&limit=1000"):
            answer = await client.get(before + path + after)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")


@pytest.mark.clients(54)
@pytest.mark.parametrize("before", BEFORE)
async def test_point_54_post_paths_in_every_spelling(start: Start, before: str) -> None:
    client = await start()
    for path in ("chat/completions", "chat//completions", "completions"):
        for after in ("", "/", "?api-version=2024"):
            answer = await client.post(before + path + after, data=b"[]")
            assert answer.status == 400  # the body was read: the path led to the right place


@pytest.mark.clients(55)
async def test_point_55_query_strings_are_ignored(start: Start) -> None:
    client = await start()
    assert (await client.get("/v1/models?limit=1000&after=x")).status == 200
    assert (await client.get("/health?a=%2F%FF&b")).status == 200


@pytest.mark.clients(56)
@pytest.mark.parametrize(
    "path", ["/", "//", "/v1", "/v1/", "/health", "/v1/health", "/v1/models", "/v1/cache/stats"]
)
async def test_point_56_head_is_get_without_a_body(start: Start, path: str) -> None:
    client = await start()
    got, head = await client.get(path), await client.send("HEAD", path)
    assert (got.status, head.status) == (200, 200)
    assert got.body
    assert head.body == b""
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert "Content-Length" in head.headers


@pytest.mark.clients(46, 62)
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("HEAD", "/v1/chat/completions", "POST"),
        ("DELETE", "/v1/completions", "POST"),
        ("POST", "/v1/models", "GET,HEAD"),
        ("DELETE", "/v1/models/org/name", "GET,HEAD"),
        ("PUT", "/health", "GET,HEAD"),
        ("POST", "/", "GET,HEAD"),
    ],
)
async def test_point_62_a_wrong_method_is_405_and_names_the_right_ones(
    start: Start, method: str, path: str, allowed: str
) -> None:
    client = await start()
    answer = await client.send(method, path)
    assert answer.status == 405
    assert answer.headers["Allow"] == allowed
    assert answer.headers["Content-Type"] == "application/json"
    if method != "HEAD":
        assert answer.error["code"] == "method_not_allowed"
        assert method in answer.error["message"]


@pytest.mark.clients(46, 62)
@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat",
        "/v1/chat/completions/x",
        "/v2/models",
        "/v1models",
        "/healthz",
        "/models%0Ax",
        "/%FF%FE",
        "/..%2fetc/passwd",
        "/favicon.ico",
    ],
)
async def test_point_62_an_unknown_path_is_404(start: Start, path: str) -> None:
    client = await start()
    answer = await client.get(path)
    assert answer.status == 404
    assert answer.error["code"] == "not_found"
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/v1//moderations/", "Moderation is"),
        ("/v1/audio/speech", "Making speech is"),
        ("/v1/images/generations", "Making images is"),
        ("/v1/moderations", "Moderation is"),
    ],
)
async def test_an_api_that_is_still_to_come_is_a_404_that_says_so(
    start: Start, path: str, words: str
) -> None:
    client = await start()
    for answer in (await client.get(path), await client.post(path + "?a=b", data=b"{}")):
        assert (answer.status, answer.error["code"]) == (404, "not_found")
        assert answer.error["message"].startswith(
            f"{words} not in this version of maxi-mlx yet ({path})."
        )


@pytest.mark.parametrize("path", ["/v1/embeddingsx", "/x/embeddings", "/v1", "/api2"])
async def test_other_paths_are_nothing_to_come(start: Start, path: str) -> None:
    client = await start()
    answer = await client.post(path, data=b"{}")
    assert b"in this version" not in answer.body


@pytest.mark.clients(103)
async def test_point_103_a_websocket_upgrade_is_refused_at_once(start: Start) -> None:
    client = await start()
    received = await client.raw(
        b"GET /llm HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert received.startswith(b"HTTP/1.1 404 ")


async def test_a_path_made_to_be_slow_is_not(start: Start) -> None:
    client = await start()
    path = "/" + "v1//" * 2000 + "x"
    began = time.process_time()
    answer = await client.get(path)
    assert answer.status == 404
    assert len(answer.error["message"]) < 500
    assert time.process_time() - began < 2
