"""What is at ``/``: a line of text for programs, the page for browsers."""

from __future__ import annotations

import re

import pytest

import maxi_mlx
from maxi_mlx.core.settings import Settings
from tests.server.running import Start

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/plain"])
async def test_programs_get_a_line(start: Start, accept: str | None) -> None:
    client = await start()
    headers = {} if accept is None else {"Accept": accept}
    answer = await client.get("/", headers=headers)
    assert answer.body.decode() == f"maxi-mlx {maxi_mlx.__version__} is running\n"
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["Vary"] == "Accept, Origin"


async def test_browsers_get_the_page_and_all_its_files_without_a_key(start: Start) -> None:
    client = await start(Settings(api_keys=("k",)))
    page = await client.get("/", headers=BROWSER)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert (await client.get("/v1/models")).status == 401
    waiting = {name.decode() for name in re.findall(rb'(?:src|href)="(page/[\w.]+)"', page.body)}
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        file = await client.get(f"/{name}")
        assert file.status == 200, name
        for header in ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"):
            assert file.headers[header] == page.headers[header]
        imported = re.findall(rb'from "\./([\w.]+)"', file.body)
        waiting |= {f"page/{each.decode()}" for each in imported} - seen
    assert {"page/app.js", "page/markdown.js", "page/chat.css", "page/icon.svg"} <= seen
    assert (await client.get("/page/none.js")).error["code"] == "not_found"
    assert (await client.get("/page/..%2fkeys.py")).status == 404


async def test_the_policy_lets_nothing_in(start: Start) -> None:
    client = await start()
    headers = (await client.get("/", headers=BROWSER)).headers
    policy = headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


async def test_a_file_that_did_not_change_is_not_sent_again(start: Start) -> None:
    client = await start()
    first = await client.get("/page/app.js")
    again = await client.get("/page/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    other = await client.get("/page/app.js", headers={"If-None-Match": '"other"'})
    assert other.body == first.body


async def test_the_page_is_for_its_own_origin(start: Start) -> None:
    client = await start()
    own = {"Origin": f"http://127.0.0.1:{client.port}"}
    assert (await client.get("/v1/status", headers=own)).status == 200
    foreign = {**BROWSER, "Origin": "https://evil.example"}
    assert (await client.get("/", headers=foreign)).status == 403
