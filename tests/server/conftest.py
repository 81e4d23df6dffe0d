"""A running server, and a watch on the event loop: what blocks it fails the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.models import build_model
from tests.server.running import Start, started


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop() -> Iterator[BlockBuster]:
    with blockbuster_ctx("maxi_mlx") as watch:
        yield watch


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """``await start(settings)`` gives a `Client` of a server that listens on loopback."""
    async with started() as start:
        yield start


@pytest.fixture(scope="session")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model named ``long`` with so long a context that no test sees its end. `endless` asks
    it for an answer without one."""
    folder = tmp_path_factory.mktemp("long") / "long"
    return build_model(folder, "llama", max_position_embeddings=200_000)
