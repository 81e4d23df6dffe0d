"""Request bodies: what is read as JSON, what is too large, what is broken."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections.abc import AsyncIterator

import pytest

from maxi_mlx.core.settings import Settings
from tests.server.running import Client, Start

CHAT = "/v1/chat/completions"
# Gets past the body and fails on what it asks for, which shows that it was read as JSON.
UNKNOWN_MODEL = b'{"model":"no-such-model","messages":[{"role":"user","content":"hi"}]}'
SMALL = Settings(max_body_bytes=1000)


def post(headers: bytes, body: bytes) -> bytes:
    return b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body


@pytest.mark.clients(38)
@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain;charset=UTF-8",
        "application/octet-stream",
        "nonsense",
        "a/b; charset=klingon",
    ],
)
async def test_point_38_any_content_type_is_read_as_json(start: Start, content_type: str) -> None:
    client = await start()
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await client.post(
        CHAT, data=UNKNOWN_MODEL, headers=headers, skip_auto_headers=["Content-Type"]
    )
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"


@pytest.mark.parametrize("content_type", ["multipart/form-data; boundary=x", "image/png"])
async def test_a_body_that_cannot_be_json_is_415(start: Start, content_type: str) -> None:
    client = await start()
    answer = await client.post(CHAT, data=UNKNOWN_MODEL, headers={"Content-Type": content_type})
    assert answer.status == 415
    assert answer.error["code"] == "unsupported_media_type"
    assert content_type.partition(";")[0] in answer.error["message"]


@pytest.mark.clients(39, 46)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b'{"model": "m", "messages": [}',
        b'{"messages": "\xff\xfe"}',
        b"\xff\xfe",
        b"\x00",
        b'{"a": NaN}',
        b"[" * 100_000,
    ],
    ids=lambda body: str(body[:12]),
)
async def test_point_39_a_broken_body_is_400_and_the_connection_is_kept(
    start: Start, body: bytes
) -> None:
    client = await start()
    for path in (CHAT, "/v1/completions"):
        answer = await client.post(path, data=body)
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        assert answer.headers.get("Connection") != "close"


@pytest.mark.clients(39)
async def test_point_39_the_same_connection_goes_on(start: Start) -> None:
    client = await start()
    bad = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n\xff\xfe"
    good = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    received = await client.raw(bad + good)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.1 200 OK" in received


@pytest.mark.clients(40)
@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        (b"5", None),
        (b"null", None),
        (b'"text"', None),
        (b"{}", "messages"),
        (b'{"messages":null}', "messages"),
        (b'{"messages":"hi"}', "messages"),
        (b'{"messages":[]}', "messages"),
        (b'{"messages":[5]}', "messages[0]"),
        (b'{"messages":[null]}', "messages[0]"),
        (b'{"messages":[{"role":"user","content":5}]}', "messages[0].content"),
        (b'{"messages":[{"role":5,"content":"hi"}]}', "messages[0].role"),
    ],
)
async def test_point_40_a_wrong_body_is_400_and_names_the_field(
    start: Start, body: bytes, param: str | None
) -> None:
    client = await start()
    answer = await client.post(CHAT, data=body)
    assert answer.status == 400
    assert answer.error["param"] == param


@pytest.mark.clients(46)
async def test_a_body_over_the_limit_is_413(start: Start) -> None:
    client = await start(SMALL)
    answer = await client.post(CHAT, data=b" " * 1001)
    assert answer.status == 413
    assert answer.error["code"] == "request_too_large"
    assert "1000 bytes" in answer.error["message"]
    assert "--max-body-size" in answer.error["message"]
    assert (await client.post(CHAT, data=UNKNOWN_MODEL)).status == 404


async def test_a_chunked_body_over_the_limit_is_413(start: Start) -> None:
    client = await start(SMALL)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b" " * 1000

    answer = await client.post(CHAT, data=chunks())
    assert answer.status == 413
    assert (await client.post(CHAT, data=UNKNOWN_MODEL)).status == 404


async def test_a_compressed_body_over_the_limit_is_413(start: Start) -> None:
    client = await start(SMALL)
    bomb = gzip.compress(b" " * 10_000_000)
    answer = await client.post(CHAT, data=bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status == 413
    assert (await client.post(CHAT, data=UNKNOWN_MODEL)).status == 404


@pytest.mark.clients(37)
@pytest.mark.slow
async def test_point_37_a_body_of_100_mb_is_taken(start: Start) -> None:
    client = await start()
    image = b'{"type":"image_url","image_url":{"url":"data:,' + b"A" * 100_000_000 + b'"}}'
    body = b'{"model":"m","messages":[{"role":"user","content":[' + image + b"]}]}"
    answer = await client.post(CHAT, data=io.BytesIO(body))
    assert answer.status == 400  # understood, and refused for the image
    assert answer.error["param"] == "messages[0].content[0].image_url.url"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(UNKNOWN_MODEL)),
        ("GZIP", gzip.compress(UNKNOWN_MODEL)),
        ("deflate", zlib.compress(UNKNOWN_MODEL)),
        ("identity", UNKNOWN_MODEL),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_compressed_bodies_are_read(start: Start, encoding: str, body: bytes) -> None:
    client = await start()
    answer = await client.post(CHAT, data=body, headers={"Content-Encoding": encoding})
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"


@pytest.mark.parametrize("encoding", ["compress", "x-secret", "gzip, gzip"])
async def test_another_encoding_is_415(start: Start, encoding: str) -> None:
    client = await start()
    answer = await client.post(CHAT, data=b"{}", headers={"Content-Encoding": encoding})
    assert answer.status == 415
    assert encoding in answer.error["message"]


async def test_a_body_that_does_not_decompress_is_400_and_ends_the_connection(
    start: Start,
) -> None:
    client = await start()
    headers = b"Content-Encoding: gzip\r\nContent-Length: 9\r\n"
    received = await client.raw(post(headers, b""), b"not gzip!")
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nConnection: close\r\n" in received
    assert b'"type":"invalid_request_error"' in received
    await assert_well(client)


@pytest.mark.parametrize(
    "data",
    [
        post(b"Transfer-Encoding: chunked\r\n", b"zz\r\n"),
        post(b"Content-Length: -1\r\n", b""),
        post(b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{}"),
        b"not http at all\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Header\r\n\r\n",
    ],
    ids=lambda data: str(data[-12:]),
)
async def test_what_is_not_http_is_400_without_a_traceback(
    start: Start, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client = await start()
    received = await client.raw(data)
    assert b" 400 Bad Request\r\n" in received[:40]
    assert not [record for record in caplog.records if record.exc_info]
    await assert_well(client)


@pytest.mark.slow
async def test_a_client_that_leaves_in_the_middle_of_its_body_does_no_harm(start: Start) -> None:
    client = await start()
    data = post(b"Content-Length: 100\r\n", b"{")
    assert await asyncio.gather(*(client.raw(data, within_s=1) for _ in range(5))) == [b""] * 5
    await assert_well(client)


async def assert_well(client: Client) -> None:
    assert (await client.get("/v1/models")).status == 200


async def test_a_client_that_asks_first_is_told_to_go_on(start: Start) -> None:
    client = await start()
    length = f"Content-Length: {len(UNKNOWN_MODEL)}\r\n".encode()
    headers = b"Expect: 100-continue\r\nConnection: close\r\n" + length
    received = await client.raw(post(headers, b""), UNKNOWN_MODEL)
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 ")
