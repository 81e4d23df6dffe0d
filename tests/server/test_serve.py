"""From taking the port to the last answer: how the server starts and how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server import serve
from maxi_mlx.server.address import address
from maxi_mlx.server.serve import Stop, run
from tests.engine.asking import slowed
from tests.server.asking import until

ANY_PORT = Settings(port=0, drain_timeout_s=120)
ENDLESS: dict[str, Any] = {
    "model": "long",
    "prompt": "hello",
    "max_tokens": -1,
    "stream": True,
    "logit_bias": {"0": -100, "1": -100, "2": -100, "3": -100},
}


@dataclass
class Served:
    """A server under `run`, and a client for it."""

    address: str
    engine: Engine
    stop: Stop
    task: asyncio.Task[None]
    session: aiohttp.ClientSession

    def post(self, path: str = "/v1/completions", **fields: Any) -> Any:
        return self.session.post(self.address + path, json=fields)

    async def end(self) -> None:
        """Waits for `run` to return, for much less long than a server drains."""
        async with asyncio.timeout(30):
            await self.task


@asynccontextmanager
async def serving(settings: Settings, *roots: Root) -> AsyncIterator[Served]:
    catalog = Catalog(roots)
    engine = Engine(settings, catalog)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = Stop()
    task = asyncio.create_task(run(settings, engine, catalog, on_ready=ready.set_result, stop=stop))
    try:
        async with aiohttp.ClientSession() as session:
            yield Served(await ready, engine, stop, task, session)
    finally:
        stop.ask()
        stop.ask()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def setup_error(settings: Settings) -> str:
    catalog = Catalog([])
    engine = Engine(settings, catalog)
    with pytest.raises(SetupError) as caught:
        await run(settings, engine, catalog, on_ready=lambda _: None)
    assert engine.status().state == "starting"  # nothing was begun
    return caught.value.message


def root(folder: Path) -> Root:
    return Root(folder, "tests", "folders")


@pytest.mark.slow
async def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = await setup_error(Settings(port=port))
    assert f"Port {port} is taken" in message
    assert "--port" in message
    assert "\n" not in message


async def test_a_port_that_we_have_already_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxi_mlx.server.address.PROBE_S", 30.0)
    async with serving(ANY_PORT) as served:
        port = int(served.address.rpartition(":")[2])
        message = await setup_error(Settings(port=port))
    where = f"http://127.0.0.1:{port}"
    assert message.startswith(f"Port {port} is taken: maxi-mlx is serving at {where} already. ")


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "http://127.0.0.1:"), ("::", "http://[::1]:")]
)
def test_all_addresses_are_shown_as_one_that_works(host: str, shown: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert address(Settings(host=host), sock) == f"{shown}{sock.getsockname()[1]}"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(host="192.0.2.1", port=0), "--host 192.0.2.1 is not an address of this machine"),
        (Settings(host="no such host", port=0), "--host no such host is no address"),
    ],
    ids=["foreign address", "no name"],
)
async def test_an_address_that_cannot_be_used_is_one_clear_line(
    settings: Settings, words: str
) -> None:
    message = await setup_error(settings)
    assert words in message
    assert "\n" not in message


async def test_a_port_is_free_again_at_once() -> None:
    async with serving(ANY_PORT) as served:
        port = int(served.address.rpartition(":")[2])
        async with served.session.get(served.address) as answer:
            assert answer.status == 200
    async with serving(replace(ANY_PORT, port=port)) as served:
        assert served.address == f"http://127.0.0.1:{port}"


async def test_localhost_is_reached_by_all_its_addresses() -> None:
    async with serving(replace(ANY_PORT, host="localhost")) as served:
        port = served.address.rpartition(":")[2]
        assert served.address == f"http://localhost:{port}"
        async with served.session.get(f"http://127.0.0.1:{port}/health") as answer:
            assert answer.status == 200


async def test_an_idle_server_ends_soon_after_it_is_asked() -> None:
    async with serving(ANY_PORT) as served:
        async with served.session.get(served.address) as answer:  # leaves an idle connection
            assert answer.status == 200
        served.stop.ask()
        await served.end()


async def test_whoever_watches_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="maxi_mlx.server.serve")
    async with (
        serving(ANY_PORT) as served,
        served.session.get(served.address + "/v1/status/events") as watched,
    ):
        assert (await watched.content.readline()).startswith(b'data: {"version"')
        served.stop.ask()
        await served.end()
        last = (await watched.content.read()).strip().rpartition(b"\n")[2]
    assert b'"state":"draining"' in last
    assert "requests" not in caplog.text


async def test_running_answers_finish_and_new_ones_are_refused(long_model: Path) -> None:
    async with serving(ANY_PORT, root(long_model)) as served:
        async with served.post(**{**ENDLESS, "max_tokens": 500}) as running:
            await running.content.readline()
            with slowed():
                served.stop.ask()
                await until(lambda: served.engine.status().state == "draining")
                async with served.post(**ENDLESS) as refused:
                    assert refused.status == 503
                    assert int(refused.headers["Retry-After"]) > 0
                    assert (await refused.json())["error"]["code"] == "unavailable"
                async with served.session.get(served.address + "/health") as health:
                    assert (await health.json())["status"] == "draining"
            body = await running.content.read()
        assert body.endswith(b"data: [DONE]\n\n")
        assert b'"finish_reason":"length"' in body
        await served.end()


@pytest.mark.clients(18)
@pytest.mark.parametrize("asks", [1, 2], ids=["time runs out", "asked twice"])
async def test_point_18_an_answer_that_is_ended_says_so(
    long_model: Path, monkeypatch: pytest.MonkeyPatch, asks: int
) -> None:
    monkeypatch.setattr(serve, "LAST_WORDS_S", 30.0)
    timeout_s = 0.3 if asks == 1 else 120
    async with serving(replace(ANY_PORT, drain_timeout_s=timeout_s), root(long_model)) as served:
        async with served.post(**ENDLESS) as running:
            await running.content.readline()
            for _ in range(asks):
                served.stop.ask()
            body = await running.content.read()
        await served.end()
    last = body.split(b"\n\n")[-2].strip()
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["code"] == "unavailable"


async def test_a_whole_answer_that_is_ended_is_503(
    long_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "LAST_WORDS_S", 30.0)
    async with serving(replace(ANY_PORT, drain_timeout_s=0.3), root(long_model)) as served:
        asking = asyncio.create_task(served.post(**{**ENDLESS, "stream": False}).__aenter__())
        await until(lambda: served.engine.status().num_running > 0)
        served.stop.ask()
        answer = await asking
        assert answer.status == 503
        answer.release()
        await served.end()


@pytest.mark.slow
async def test_a_slow_reader_gets_the_rest_while_the_server_drains(
    long_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "maxi_mlx")
    body = json.dumps({**ENDLESS, "max_tokens": 800, "logprobs": 20}).encode()  # some megabytes
    async with serving(ANY_PORT, root(long_model)) as served:
        host, _, port = served.address.removeprefix("http://").partition(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
        head = f"Host: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(b"POST /v1/completions HTTP/1.1\r\n" + head.encode() + body)
        await reader.readline()
        while served.engine.status().num_running or not served.engine.status().loaded:
            await asyncio.sleep(0.05)
        served.stop.ask()
        await asyncio.sleep(0.5)
        assert not served.task.done()
        received = await reader.read()
        writer.close()
        assert received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        await served.end()
    [line] = [r.getMessage() for r in caplog.records if "stopping" in r.getMessage()]
    assert "still running: 1," in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_ask_to_stop(number: signal.Signals) -> None:
    async with serving(ANY_PORT) as served:
        assert not served.stop.draining.is_set()
        os.kill(os.getpid(), number)
        await served.end()
        assert served.stop.draining.is_set()
        assert not served.stop.at_once.is_set()
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


STUCK = """
import asyncio, sys, time
from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server.serve import Stop, run

async def main():
    settings, catalog = Settings(port=0), Catalog([])
    engine = Engine(settings, catalog)

    def on_ready(address):
        # Work that can't be broken off, as the loading of a large model is.
        engine._device.post(lambda: time.sleep(300))
        print(address, flush=True)

    stop = Stop()

    async def tell():
        await stop.draining.wait()
        print("draining", flush=True)

    telling = asyncio.create_task(tell())
    await run(settings, engine, catalog, on_ready=on_ready, stop=stop)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_second_signal_ends_a_server_whose_device_is_stuck() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(b"http://")
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == b"draining\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=40) == 130
        finally:
            process.kill()


async def test_a_server_asked_to_stop_before_it_is_ready_ends() -> None:
    catalog = Catalog([])
    stop = Stop()
    stop.ask()
    engine = Engine(ANY_PORT, catalog)
    async with asyncio.timeout(30):
        await run(ANY_PORT, engine, catalog, on_ready=lambda _: None, stop=stop)


async def test_a_cancelled_server_cleans_up() -> None:
    async with serving(ANY_PORT) as served:
        served.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await served.task
        with pytest.raises(aiohttp.ClientConnectionError):
            await served.session.get(served.address)
