"""Faults of ours: one proper answer, one entry in the log, no secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest
from aiohttp import web

from tests.server.running import Client, Start


async def raising(start: Start, error: BaseException, *, after_bytes: bool = False) -> Client:
    async def handler(request: web.Request) -> web.StreamResponse:
        if after_bytes:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first")
        raise error

    def prepare(app: web.Application) -> None:
        app.router.add_get("/raise", handler)

    return await start(prepare=prepare)


@pytest.mark.clients(46)
@pytest.mark.parametrize(
    "error", [ValueError("secret"), TimeoutError("secret"), KeyError("secret")]
)
async def test_point_46_an_unforeseen_error_is_a_500_without_its_words(
    start: Start, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    client = await raising(start, error)
    answer = await client.get("/raise")
    assert answer.status == 500
    assert answer.error["type"] == "server_error"
    assert answer.error["code"] == "internal_error"
    assert answer.headers["X-Request-Id"] in answer.error["message"]
    assert "secret" not in str(answer.error)
    [record] = [record for record in caplog.records if record.exc_info]
    assert answer.headers["X-Request-Id"] in record.getMessage()


@pytest.mark.clients(46)
async def test_point_46_a_refusal_of_the_http_library_is_rendered_too(start: Start) -> None:
    client = await raising(start, web.HTTPConflict())
    answer = await client.get("/raise")
    assert answer.status == 400
    assert answer.error["message"] == "Conflict"


async def test_an_error_after_the_first_byte_ends_the_connection(start: Start) -> None:
    client = await raising(start, ValueError("secret"), after_bytes=True)
    received = await client.raw(b"GET /raise HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert received.endswith(b"5\r\nfirst\r\n")  # no end mark: the client sees that it is cut
    assert (await client.get("/")).status == 200


async def test_request_ids_differ(start: Start) -> None:
    client = await start()
    answers = [await client.get(path) for path in ("/", "/health", "/nowhere", "/v1/models")]
    ids = {answer.headers["X-Request-Id"] for answer in answers}
    assert len(ids) == 4
    assert all(identity.startswith("req-") for identity in ids)


@pytest.mark.slow
def test_the_server_is_imported_without_what_costs() -> None:
    heavy = "{'mlx', 'mlx_lm', 'transformers', 'tokenizers', 'numpy', 'gguf', 'jinja2'}"
    code = f"import sys, maxi_mlx.server.serve; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
