"""Web pages: foreign ones are kept out, the others get what a browser asks for."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from maxi_mlx.core.settings import Settings
from tests.server.running import Start

FOREIGN = "https://evil.example"
LISTED = Settings(cors_origins=("https://chat.example",))
ANY = Settings(cors_origins=("*",))
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}


@pytest.mark.clients(61)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_point_61_a_foreign_page_is_refused(start: Start, method: str) -> None:
    client = await start()
    answer = await client.send(method, "/v1/models", headers={"Origin": FOREIGN, **PREFLIGHT})
    assert answer.status == 403
    assert answer.error["type"] == "permission_error"
    assert f"--cors '{FOREIGN}'" in answer.error["message"]
    assert not [name for name in answer.headers if name.startswith("Access-Control")]


@pytest.mark.clients(61)
@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/nowhere"])
async def test_point_61_a_foreign_host_name_is_refused(start: Start, path: str) -> None:
    client = await start()
    answer = await client.get(path, headers={"Host": "evil.example:11434"})
    assert answer.status == 403
    assert "evil.example" in answer.error["message"]
    assert (await client.get(path, headers={"Host": "localhost"})).status in (200, 404)


async def test_a_request_without_a_host_is_no_browsers(start: Start) -> None:
    client = await start()
    assert (await client.raw(b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 200 ")


@pytest.mark.clients(59)
@pytest.mark.parametrize("settings", [Settings(), LISTED, ANY, Settings(api_keys=("secret",))])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/nowhere"])
async def test_point_59_a_preflight_is_204_and_grants_what_is_asked(
    start: Start, settings: Settings, path: str
) -> None:
    client = await start(settings)
    headers = {"Origin": "http://localhost:3000", **PREFLIGHT}
    headers["Access-Control-Request-Private-Network"] = "true"
    answer = await client.send("OPTIONS", path, headers=headers)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    assert answer.headers["Access-Control-Allow-Methods"] == "POST"
    assert (
        answer.headers["Access-Control-Allow-Headers"]
        == "authorization,content-type,x-stainless-os"
    )
    assert answer.headers["Access-Control-Allow-Private-Network"] == "true"
    assert "Origin" in answer.headers["Vary"]


@pytest.mark.clients(59)
async def test_point_59_a_bare_options_request_needs_nothing(start: Start) -> None:
    client = await start(Settings(api_keys=("secret",)))
    for path in ("/v1/models", "*"):
        received = await client.raw(
            f"OPTIONS {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        assert received.startswith(b"HTTP/1.1 204 ")
        assert b"Access-Control-Allow-Origin" not in received
        assert b"Access-Control-Allow-Private-Network" not in received


@pytest.mark.clients(60)
@pytest.mark.parametrize(
    ("settings", "origin"),
    [
        (Settings(), "http://localhost:3000"),
        (Settings(), "vscode-webview://x"),
        (LISTED, "https://chat.example"),
        (ANY, "https://evil.example"),
        (ANY, "null"),
    ],
)
async def test_point_60_real_answers_name_the_origin_errors_too(
    start: Start, settings: Settings, origin: str
) -> None:
    client = await start(settings)
    requests = [
        ("GET", "/v1/models", 200),
        ("GET", "/", 200),
        ("GET", "/nowhere", 404),
        ("DELETE", "/v1/models", 405),
        ("POST", "/v1/chat/completions", 400),
    ]
    for method, path, status in requests:
        answer = await client.send(method, path, headers={"Origin": origin})
        assert answer.status == status
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert "X-Request-Id" in answer.headers["Access-Control-Expose-Headers"]
        assert "Origin" in answer.headers["Vary"].split(", ")


@pytest.mark.clients(60)
async def test_point_60_a_401_names_the_origin(start: Start) -> None:
    client = await start(Settings(api_keys=("secret",)))
    answer = await client.get("/v1/models", headers={"Origin": "http://localhost:3000"})
    assert answer.status == 401
    assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"


async def test_header_bytes_that_are_not_text_are_not_echoed(start: Start) -> None:
    client = await start(ANY)
    head = b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    asked = b"Access-Control-Request-Headers: \xff\r\nAccess-Control-Request-Method: \xfe\r\n"
    received = await client.raw(head + b"Origin: http://localhost\r\n" + asked + b"\r\n")
    assert received.startswith(b"HTTP/1.1 204 ")
    assert b"Access-Control-Allow-Headers: *\r\n" in received
    received = await client.raw(head + b"Origin: http://\xff\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 403 ")


@pytest.mark.clients(60)
async def test_point_60_an_answer_sent_piece_by_piece_names_the_origin(start: Start) -> None:
    async def pieces(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await asyncio.sleep(0)
        await response.write_eof(b" second")
        return response

    def prepare(app: web.Application) -> None:
        app.router.add_get("/pieces", pieces)

    client = await start(prepare=prepare)
    answer = await client.get("/pieces", headers={"Origin": "http://localhost:3000"})
    assert answer.body == b"first second"
    assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    assert answer.headers["X-Request-Id"].startswith("req-")
