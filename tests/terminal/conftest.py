"""A server whose answers come at a pace, for commands that are run in processes of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maxi_mlx.core.settings import Settings
from tests.clients.conftest import Served, serving
from tests.terminal.paced_engine import PacedEngine


@pytest.fixture(scope="session")
def paced_models(scripted_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paced")
    for name in ("scripted", "twin"):
        shutil.copytree(scripted_model, folder / name)
    return folder


@pytest.fixture(scope="session")
def paced(paced_models: Path) -> Iterator[Served]:
    """With a key, and a model that is answered with where none is named."""
    settings = Settings(api_keys=("secret",), model="scripted")
    with serving(paced_models, settings, make_engine=PacedEngine) as served:
        yield served


@pytest.fixture(scope="session")
def variables(paced: Served) -> dict[str, str]:
    """What a command is told of that server."""
    port = paced.base_url.removesuffix("/v1").rpartition(":")[2]
    return {"MAXI_MLX_PORT": port, "MAXI_MLX_API_KEY": "secret"}


@pytest.fixture
def engine(paced: Served) -> PacedEngine:
    assert isinstance(paced.engine, PacedEngine)
    paced.engine.requests.clear()
    paced.engine.num_left_off = 0
    paced.engine.go_on.clear()
    return paced.engine


Wait = Callable[[Callable[[], bool]], None]


@pytest.fixture
def wait(paced: Served) -> Wait:
    return paced.wait
