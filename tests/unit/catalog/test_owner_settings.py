"""The owner's settings find their models, also those that come later."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.errors import ModelNotFound
from maxi_mlx.core.model_settings import ModelSettings
from tests.unit.catalog.folders import write_model


def catalog_of(folder: Path, **settings: ModelSettings) -> Catalog:
    return Catalog([Root(folder, "tests", "folders")], settings)


def test_an_alias_finds_the_model(models: Path) -> None:
    write_model(models / "acme" / "one")
    catalog = catalog_of(models, **{"acme/one": ModelSettings(aliases=("gpt-4o", "qwen3:4b"))})
    for name in ("gpt-4o", "GPT-4o:latest", "qwen3:4b", "acme/one", "one"):
        entry = catalog.find(name)
        assert (entry.id, entry.settings.aliases) == ("one", ("gpt-4o", "qwen3:4b"))


def test_the_context_is_capped_and_never_raised(models: Path) -> None:
    write_model(models / "one")
    write_model(models / "two")
    low, high = ModelSettings(context_tokens=100), ModelSettings(context_tokens=9999)
    catalog = catalog_of(models, one=low, two=high)
    assert catalog.find("one").context_length == 100
    assert catalog.find("two").context_length == 2048
    [misfit] = catalog.misfits()
    assert (misfit.table, misfit.key) == ("two", "context")


def test_a_folder_that_comes_later_has_its_settings(
    models: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = catalog_of(models, one=ModelSettings(aliases=("two",)))
    assert catalog.unmatched() == ("one",)
    with pytest.raises(ModelNotFound):
        catalog.find("two")
    write_model(models / "one")
    assert catalog.find("two").id == "one"
    # A model's own name is never hidden by an alias.
    write_model(models / "two")
    catalog.entries()
    assert catalog.find("two").id == "two"
    assert catalog.find("one").settings.aliases == ()
    assert "'two' for one is the name of two itself" in caplog.text
