"""Fixtures for vectors: the tiny models of every family in one folder, and an engine over them."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.vectors import tiny

HAS_EXTRA = all(importlib.util.find_spec(name) for name in ("mlx_embeddings", "mlx_vlm"))
needs_extra = pytest.mark.skipif(not HAS_EXTRA, reason="the extra 'embeddings' isn't installed")


@pytest.fixture(scope="session")
def vector_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tiny-FAMILY-embedding`` and ``tiny-FAMILY-reranker`` of every family."""
    folder = tmp_path_factory.mktemp("vectors")
    for family in tiny.CONFIGS:
        tiny.build(folder / f"tiny-{family}-embedding", family)
    for family in tiny.CLASSIFIERS:
        tiny.build_reranker(folder / f"tiny-{family}-reranker", family)
    return folder


@pytest.fixture
async def engine(vector_models: Path) -> AsyncIterator[Engine]:
    engine = Engine(Settings(), Catalog([Root(vector_models, "tests", "folders")]))
    await engine.start()
    await engine.wait_ready()
    try:
        yield engine
    finally:
        await engine.close()
