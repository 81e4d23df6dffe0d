"""Fixtures for the engine: its parts on the test's own thread, and the whole of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import device
from maxi_mlx.engine.engine import Engine

device.prepare("auto")

from maxi_mlx.engine.cache_form import CacheForm  # noqa: E402
from maxi_mlx.engine.language_model import LanguageModel, load_language_model  # noqa: E402

LoadTiny = Callable[[str], LanguageModel]


def entry_for(folder: Path, **more: Any) -> ModelEntry:
    """A catalog entry for a folder, without a catalog."""
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config", config)
    return ModelEntry(
        id=folder.name,
        path=folder,
        kind="language",
        org_name=None,
        source="test",
        model_type=config["model_type"],
        architecture=None,
        weight_bytes=1_000_000,
        quantization=None,
        context_length=text.get("max_position_embeddings"),
        created=0,
        **more,
    )


@pytest.fixture(scope="session")
def load_tiny(tiny_model: Callable[[str], Path]) -> LoadTiny:
    """``load_tiny(family)``: the family's model, loaded once."""
    loaded: dict[str, LanguageModel] = {}

    def load(family: str) -> LanguageModel:
        if family not in loaded:
            loaded[family] = load_language_model(entry_for(tiny_model(family)), CacheForm())
        return loaded[family]

    return load


@asynccontextmanager
async def make_engine(
    folders: Sequence[Path], settings: Settings | None = None
) -> AsyncIterator[Engine]:
    """An engine of its own over some folders, closed at the end."""
    settings = settings or Settings()
    roots = [Root(folder, "test", "folders") for folder in folders]
    catalog = Catalog(roots, settings.models, adapter_dirs=settings.adapter_dirs)
    engine = Engine(settings, catalog)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


@pytest.fixture
async def engine(tiny_model: Callable[[str], Path]) -> AsyncIterator[Engine]:
    """A running engine over some tiny models; each is loaded when asked for."""
    families = ("llama", "qwen3", "qwen2", "llama-spm", "gemma3")
    async with make_engine([tiny_model(family) for family in families]) as engine:
        yield engine


@pytest.fixture
async def no_leftover_rows(engine: Engine) -> AsyncIterator[None]:
    """Whatever a test did, its rows are gone after it."""
    yield
    status = engine.status()
    assert (status.num_running, status.num_waiting) == (0, 0)
