"""A server in a thread of its own, so that a client may block, as users' programs do."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.server.running import started


@dataclass(frozen=True)
class Served:
    """``base_url`` is what a client is given; ``engine`` is the one behind it."""

    base_url: str
    engine: Engine

    def is_idle(self) -> bool:
        """Whether the device, too, has nothing left to do; its figures are read now and then."""
        status = self.engine.status()
        device = sum(model.num_running for model in status.loaded)
        return status.num_running + status.num_waiting + device == 0

    def wait(self, condition: Callable[[], bool], *, within_s: float) -> None:
        ends_at = time.monotonic() + within_s
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
            served = Served(f"http://127.0.0.1:{client.port}/v1", client.engine)

            def end() -> None:
                loop.call_soon_threadsafe(ended.set)

            ready.set_result((served, end))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    served, end = ready.result(timeout=30)
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
