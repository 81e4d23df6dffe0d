"""The tiny file and its wheel, a home of the test's own, and a progress that remembers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.pull.progress import Unit
from maxi_mlx.catalog.pull.source import EmbeddedModel
from tests.unit.pull.index_server import IndexServer
from tests.unit.pull.tiny import TinyFile, tiny_model, write_tiny, write_wheel


class Remembered:
    """What a user would have seen."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, int, int]] = []  # label, total, already
        self.counts: list[int] = []  # of each job, at its end
        self.num_done = 0
        self.texts: list[str] = []

    def start(self, label: str, total: int, *, unit: Unit, already: int = 0) -> None:
        self.jobs.append((label, total, already))
        self.counts.append(already)

    def advance(self, amount: int) -> None:
        self.counts[-1] += amount

    def done(self) -> None:
        self.num_done += 1

    def say(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def remembered() -> Remembered:
    return Remembered()


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> TinyFile:
    return write_tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_wheel(tmp_path_factory: pytest.TempPathFactory, tiny_file: TinyFile) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheel"), tiny_file.path)


@pytest.fixture
def model(tiny_wheel: Path) -> EmbeddedModel:
    return tiny_model(tiny_wheel)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, a pip without any configuration, and no way to the network."""
    for name in list(os.environ):
        if name.upper().startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path / "maxi"))
    return tmp_path / "maxi"


StartIndex = Callable[..., IndexServer]


@pytest.fixture
def start_index(tiny_wheel: Path) -> Iterator[StartIndex]:
    servers: list[IndexServer] = []

    def start(content: bytes | None = None, **awkwardness: Any) -> IndexServer:
        body = tiny_wheel.read_bytes() if content is None else content
        servers.append(IndexServer(wheel=tiny_wheel, content=body, **awkwardness))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
