"""Fixtures for images: the tiny models that see in one folder, and an engine over them."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.vision import tiny

# Without the extra "vision" there is nothing to see with, nor anything to make images of.
HAS_EXTRA = all(importlib.util.find_spec(name) for name in ("mlx_vlm", "PIL"))
collect_ignore_glob = [] if HAS_EXTRA else ["test_*.py"]


@pytest.fixture(scope="session")
def seeing_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tiny-FAMILY`` of every family."""
    folder = tmp_path_factory.mktemp("vision")
    for family in tiny.FAMILIES:
        tiny.build(folder / f"tiny-{family}", family)
    return folder


@pytest.fixture
async def engine(seeing_models: Path) -> AsyncIterator[Engine]:
    # Without a disk, which has to say what it has before anything is kept.
    engine = Engine(
        Settings(cache_disk_bytes=0), Catalog([Root(seeing_models, "tests", "folders")])
    )
    await engine.start()
    await engine.wait_ready()
    try:
        yield engine
    finally:
        await engine.close()
