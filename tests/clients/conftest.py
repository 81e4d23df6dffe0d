"""A server in a thread of its own, so that a client may block, as users' programs do; and how
clients are installed and pointed at it."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.cli.connect import connect
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.clients import npm, pip
from tests.clients.scripted_engine import ScriptedEngine
from tests.clients.turns import script
from tests.server.running import started

# A folder that clients are, or are to be, installed in; without it, one that is removed again.
FOLDER_VARIABLE = "CLIENTS_FOLDER"

NODE_LIBRARIES = ("openai@6.49.0", "@anthropic-ai/sdk@1.14.0")
# Those of openai, anthropic and ollama are our own environment's.
PYTHON_LIBRARIES = ("litellm==1.110.2", "langchain-openai==1.7.4")


@dataclass(frozen=True)
class Served:
    """``base_url`` is what a client is given; ``app`` and ``engine`` are those behind it."""

    base_url: str
    app: web.Application
    engine: Engine

    def is_idle(self) -> bool:
        """Whether the device, too, has nothing left to do; its figures are read now and then."""
        status = self.engine.status()
        device = sum(model.num_running for model in status.loaded)
        return status.num_running + status.num_waiting + device == 0

    def wait(self, condition: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < ends_at, self.engine.status()
            time.sleep(0.01)


@contextmanager
def serving(
    folder: Path,
    settings: Settings | None = None,
    *,
    make_engine: Callable[[Settings, Catalog], Engine] = Engine,
) -> Iterator[Served]:
    ready: Future[tuple[Served, Callable[[], None]]] = Future()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with started() as start:
            root = Root(folder, "tests", "folders")
            client = await start(settings or Settings(), root, make_engine=make_engine)
            served = Served(f"http://127.0.0.1:{client.port}/v1", client.app, client.engine)

            def end() -> None:
                loop.call_soon_threadsafe(ended.set)

            ready.set_result((served, end))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    served, end = ready.result(timeout=120)
    try:
        yield served
    finally:
        end()
        thread.join(timeout=30)


@pytest.fixture(scope="session")
def models(scripted_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripted model three times: under its name, and twice under one that two share."""
    folder = tmp_path_factory.mktemp("clients")
    for name in ("scripted", "acme/twin", "other/twin"):
        shutil.copytree(scripted_model, folder / name)
    return folder


@pytest.fixture(scope="session")
def served(models: Path) -> Iterator[Served]:
    with serving(models) as served:
        yield served


@pytest.fixture(scope="session")
def clients_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def node_modules(clients_folder: Path) -> Path:
    return npm.installed(clients_folder / "node", *NODE_LIBRARIES)


@pytest.fixture(scope="session")
def library_python(clients_folder: Path) -> Path:
    return pip.installed(clients_folder / "python", *PYTHON_LIBRARIES) / "python"


@pytest.fixture(scope="session")
def _agent_served(
    scripted_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("agents")
    shutil.copytree(scripted_model, folder / "scripted")
    # Agents keep their prompts within the context that they are told.
    path = folder / "scripted" / "config.json"
    path.write_text(path.read_text().replace("4096", "131072"))
    with serving(folder, make_engine=partial(ScriptedEngine, script=script)) as served:
        yield served


@pytest.fixture
def agent_served(_agent_served: Served) -> Served:
    """One that agents can be tested on: it answers by script, and knows of no request yet."""
    assert isinstance(_agent_served.engine, ScriptedEngine)
    _agent_served.engine.forget()
    return _agent_served


@dataclass(frozen=True)
class RequestLog:
    """The server's own log, as far as it is of requests."""

    records: pytest.LogCaptureFixture

    @property
    def requests(self) -> list[tuple[str, str, int]]:
        """Method, path and status of each; none is a refusal or a failure. What `connect` asks
        for is left out: its last lines may come late."""
        fields = [record.fields for record in self.records.records if hasattr(record, "fields")]
        found = [
            (each["method"], each["path"], each["status"])
            for each in fields
            if not each["path"].startswith(("/health", "/api/v0/models"))
        ]
        assert [each for each in found if each[2] >= 400] == []
        return found

    @property
    def paths(self) -> list[str]:
        return [path for _, path, _ in self.requests]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> RequestLog:
    caplog.set_level(logging.DEBUG, logger="maxi_mlx.requests")
    return RequestLog(caplog)


@dataclass(frozen=True)
class User:
    """Somebody with an empty home, who sets a client up as `maxi-mlx connect` says. Programs run
    in ``work``."""

    home: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def work(self) -> Path:
        return self.home / "work"

    def connect(self, client: str, served: Served, *arguments: str) -> str:
        """What the command prints, or says that it wrote."""
        command = [client, "--url", served.base_url, "--model", "scripted", *arguments]
        with self.monkeypatch.context() as patched:
            patched.setenv("HOME", str(self.home))
            patched.delenv("XDG_CONFIG_HOME", raising=False)
            patched.chdir(self.work)
            result = CliRunner().invoke(connect, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def program(self, path: Path) -> Path:
        """A copy where it runs, beside what it imports."""
        return Path(shutil.copy(path, self.work))

    def run(self, *command: str | Path, timeout_s: float = 120, **variables: str) -> str:
        """What the program prints; it has to succeed."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **variables}
        done = subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    user = User(tmp_path / "home", monkeypatch)
    user.work.mkdir(parents=True)
    return user


def variables_in(shown: str) -> dict[str, str]:
    """Those that the lines ``export NAME=VALUE`` set, as a shell has them."""
    command = ["sh", "-c", f"{shown}\nenv -0"]
    done = subprocess.run(command, env={}, check=True, capture_output=True, text=True, timeout=60)
    names = [line.split()[1].partition("=")[0] for line in shown.splitlines()]
    found = dict(each.split("=", 1) for each in done.stdout.split("\0") if each)
    return {name: found[name] for name in names}
