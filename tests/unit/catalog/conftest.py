from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def catalog(models: Path) -> Catalog:
    return Catalog([Root(models, str(models), "folders")])


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Root reads everything; tests of permissions need another user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
