"""The load client as its user runs it, against a small server in this process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import load
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
FINISH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5}}


def text(content: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}


class ScriptedServer:
    """Answers every POST by ``handler``; keeps the bodies, and the most that ran at once."""

    def __init__(self) -> None:
        self.handler: Handler = answer_well
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.num_running = 0
        self.max_running = 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.headers.append(request.headers)
        self.num_running += 1
        self.max_running = max(self.max_running, self.num_running)
        try:
            return await self.handler(request)
        finally:
            self.num_running -= 1

    async def run(self, *flags: str) -> list[Any]:
        arguments = ["--url", self.url, "--model", "m", *flags]
        return await load.measure(load.parse(arguments))


async def stream(request: web.Request, events: list[Any], *, pause_s: float = 0.0) -> web.Response:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        data = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
        await response.write(data.encode())
        await asyncio.sleep(pause_s)
    return response  # type: ignore[return-value]


async def answer_well(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    if not body["stream"]:
        message = {"message": {"role": "assistant", "content": "a b"}, "finish_reason": "stop"}
        return web.json_response({"choices": [message], "usage": USAGE["usage"]})
    events = [": hello\n\n", ROLE, text("a"), text(" b"), FINISH, USAGE, "data: [DONE]\n\n"]
    return await stream(request, events, pause_s=0.002)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", scripted.answer)
    app.router.add_post("/v1/completions", scripted.answer)
    async with TestServer(app) as running:
        scripted.url = str(running.make_url("/v1"))
        yield scripted


async def test_streams_at_several_levels(server: ScriptedServer) -> None:
    one, four = await server.run("--concurrency", "1,4", "--requests", "6", "--max-tokens", "9")
    assert (one.concurrency, one.num_requests, one.num_errors) == (1, 6, 0)
    assert (four.concurrency, four.num_requests, four.num_errors) == (4, 6, 0)
    assert one.completion_tokens == 30
    assert one.counted_by == "usage"
    assert one.prompt_tokens == 11
    assert 0.002 <= one.gap_s.p50 <= one.gap_s.p95 <= one.gap_s.max < one.latency_s.max
    assert 0 < one.first_token_s.p50 < one.latency_s.p50
    assert server.max_running == 4
    assert len(server.bodies) == 13  # one before the levels
    assert server.bodies[0] == {
        "model": "m",
        "max_tokens": 9,
        "temperature": 0,
        "stream": True,
        "messages": [{"role": "user", "content": server.bodies[0]["messages"][0]["content"]}],
        "stream_options": {"include_usage": True},
    }


async def test_prompts_never_come_twice_unless_asked_for(server: ScriptedServer) -> None:
    await server.run("--concurrency", "1,2", "--requests", "5")
    prompts = [body["messages"][0]["content"] for body in server.bodies]
    assert len(set(prompts)) == 11
    server.bodies.clear()
    await server.run("--concurrency", "1,2", "--requests", "5", "--same-prompt")
    assert len({body["messages"][0]["content"] for body in server.bodies}) == 1


async def test_whole_answers(server: ScriptedServer) -> None:
    (level,) = await server.run("--concurrency", "2", "--requests", "4", "--no-stream")
    assert level.num_errors == 0
    assert level.completion_tokens == 20
    assert level.first_token_s is None
    assert all("stream_options" not in body for body in server.bodies)


async def test_raw_completions(server: ScriptedServer) -> None:
    flags = ("--endpoint", "completions", "--no-stream", "--concurrency", "1", "--requests", "1")
    await server.run(*flags)
    assert isinstance(server.bodies[0]["prompt"], str)
    assert "messages" not in server.bodies[0]


async def test_the_key_goes_along(server: ScriptedServer) -> None:
    await server.run("--api-key", "secret", "--concurrency", "1", "--requests", "1")
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer secret"}


async def too_many(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "full"}}, status=429)


async def not_json(request: web.Request) -> web.StreamResponse:
    return await stream(request, ["data: {oops\n\n"])


async def error_inside(request: web.Request) -> web.StreamResponse:
    return await stream(request, [text("a"), {"error": {"message": "lost"}}, "data: [DONE]\n\n"])


async def no_done(request: web.Request) -> web.StreamResponse:
    return await stream(request, [text("a"), FINISH])


async def no_finish(request: web.Request) -> web.StreamResponse:
    return await stream(request, [text("a"), "data: [DONE]\n\n"])


async def cut(request: web.Request) -> web.StreamResponse:
    response = await stream(request, [text("a")])
    assert request.transport is not None
    request.transport.abort()
    return response


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    raise AssertionError("the client should have gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (too_many, "HTTP 429"),
        (not_json, "not an answer"),
        (error_inside, "error in the answer"),
        (no_done, "ended without [DONE]"),
        (no_finish, "ended without a finish_reason"),
        (cut, "connection: ClientPayloadError"),
        (hangs, "timeout"),
    ],
)
async def test_errors_are_counted_by_kind(
    server: ScriptedServer, handler: Handler, kind: str
) -> None:
    async def after_the_first(request: web.Request) -> web.StreamResponse:
        is_first = len(server.bodies) == 1
        return await (answer_well(request) if is_first else handler(request))

    server.handler = after_the_first
    timeout_s = "2" if handler is hangs else "30"
    (level,) = await server.run("--concurrency", "2", "--requests", "3", "--timeout", timeout_s)
    assert level.errors == {kind: 3}


async def test_a_level_ends_when_its_time_is_over(server: ScriptedServer) -> None:
    async def hangs_later(request: web.Request) -> web.StreamResponse:
        return await (answer_well(request) if len(server.bodies) < 4 else hangs(request))

    server.handler = hangs_later
    (level,) = await server.run("--concurrency", "2", "--requests", "50", "--max-time", "2")
    assert level.errors == {"out of time": 2}
    assert level.num_requests == 4  # two were answered; those not sent do not count
    assert level.wall_s < 20


async def test_a_first_request_that_fails_ends_the_run_with_the_reason(
    server: ScriptedServer,
) -> None:
    server.handler = too_many
    with pytest.raises(SystemExit, match=r"failed: HTTP 429 .*full"):
        await server.run("--requests", "5")
    assert len(server.bodies) == 1


async def test_no_server_there(unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}/v1"
    with pytest.raises(SystemExit, match="connection: ClientConnectorError"):
        await load.measure(load.parse(["--url", url, "--model", "m"]))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--concurrency", "1,0"], "'0' is not a whole number from 1 on"),
        (["--concurrency", "x"], "'x' is not a whole number from 1 on"),
        (["--requests", "-1"], "not a whole number"),
        (["--timeout", "nan"], "'nan' is not a number of seconds above 0"),
        (["--timeout", "soon"], "'soon' is not a number of seconds above 0"),
    ],
)
def test_flags_that_make_no_sense(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        load.parse(["--model", "m", *flags])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


async def command(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(load.__file__)), *arguments), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_as_a_command(server: ScriptedServer, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    code, output = await command(
        *("--url", server.url, "--model", "m", "--api-key", "secret"),
        *("--concurrency", "1,2", "--requests", "3", "--json", str(figures)),
    )
    assert code == 0
    heading, units, one, two = output.splitlines()
    assert (heading.split()[0], units.split()[0]) == ("at", "once")
    assert [row.split()[:4] for row in (one, two)] == [["1", "3", "0", "11"], ["2", "3", "0", "11"]]
    document = json.loads(figures.read_text())
    assert [level["concurrency"] for level in document["levels"]] == [1, 2]
    assert document["levels"][0]["total_tokens_per_s"] > 0
    assert document["settings"]["requests"] == 3
    assert "secret" not in figures.read_text()


async def test_the_command_tells_of_errors(server: ScriptedServer) -> None:
    async def fails_later(request: web.Request) -> web.StreamResponse:
        return await (answer_well(request) if len(server.bodies) < 4 else too_many(request))

    server.handler = fails_later
    code, output = await command(
        *("--url", server.url, "--model", "m", "--concurrency", "1", "--requests", "5")
    )
    assert code == 1
    assert output.splitlines()[-1] == "1 at once: 3 x HTTP 429"
