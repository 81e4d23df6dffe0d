"""A running server, and a watch on the event loop: what blocks it fails the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

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
