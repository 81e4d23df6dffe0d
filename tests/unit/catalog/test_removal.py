"""Models that are removed, and all that must stay."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.catalog.pull.hub.pulling import lock_file
from maxi_mlx.catalog.pull.lock import locked
from maxi_mlx.catalog.removal import planned_removal, remove
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound
from tests.unit.catalog.folders import write_model
from tests.unit.catalog.test_hub import HubRepository
from tests.unit.pull.conftest import Remembered

Remove = Callable[[str], None]


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def catalog(models: Path, cache: Path) -> Catalog:
    return Catalog([Root(models, "maxi-mlx", "folders"), Root(cache, "hub cache", "hub")])


@pytest.fixture
def removed(catalog: Catalog) -> Remove:
    return lambda name: remove(planned_removal(name, catalog), catalog)


def ids(catalog: Catalog) -> list[str]:
    return [entry.id for entry in catalog.entries()]


def test_a_folder_and_its_second_names(models: Path, catalog: Catalog, removed: Remove) -> None:
    write_model(models / "org" / "Tiny")
    write_model(models / "Other")
    catalog.copies.add("mine", "org/Tiny")
    catalog.copies.add("yours", "Other")
    removal = planned_removal("tiny", catalog)
    assert (removal.path, removal.num_revisions) == (models / "org" / "Tiny", 0)
    assert removal.num_bytes > 96
    removed("tiny")
    assert ids(catalog) == ["Other"]
    # The organisation had no other model; the root stays.
    assert os.listdir(models) == ["Other"]
    assert dict(catalog.copies.all()) == {"yours": "Other"}
    removed(str(models / "Other"))
    assert models.is_dir()


def test_a_repository_of_the_hub_cache(cache: Path, catalog: Catalog, removed: Remove) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    for revision in ("a" * 40, "b" * 40):
        repository.add(revision)
    repository.point("main", "a" * 40)
    other = HubRepository(cache, "models--org--Other")
    other.add("a" * 40)  # the same commit, as in a copy of a repository
    other.point("main", "a" * 40)
    removal = planned_removal("org/tiny", catalog)
    assert (removal.path, removal.num_revisions) == (repository.path, 2)
    removed("org/tiny")
    assert ids(catalog) == ["Other"]
    assert not repository.path.exists()


def test_a_download_that_has_only_begun(cache: Path, catalog: Catalog, removed: Remove) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    (repository.path / "blobs" / "abc.incomplete").write_bytes(b"x" * 1000)
    assert planned_removal("Tiny", catalog).num_bytes == 1000
    removed("Tiny")
    assert not repository.path.exists()


def test_what_is_being_fetched_stays(cache: Path, removed: Remove) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("a" * 40)
    lock = lock_file("models--org--Tiny")
    lock.parent.mkdir(parents=True)
    with (
        locked(lock, Remembered()),
        pytest.raises(InvalidRequest, match="it is being fetched right now"),
    ):
        removed("Tiny")
    removed("Tiny")
    assert not repository.path.exists()


@pytest.mark.parametrize("of", ["model", "organisation"])
def test_nothing_is_removed_by_way_of_a_link(
    tmp_path: Path, models: Path, removed: Remove, of: str
) -> None:
    elsewhere = write_model(tmp_path / "elsewhere" / "Tiny")
    models.mkdir()
    if of == "model":
        (models / "Tiny").symlink_to(elsewhere)
    else:
        (models / "org").symlink_to(elsewhere.parent)
    with pytest.raises(InvalidRequest, match=f"by one, to {elsewhere}: remove that yourself"):
        removed("Tiny")
    assert (elsewhere / "config.json").is_file()


def test_a_link_inside_goes_and_what_it_leads_to_stays(
    tmp_path: Path, models: Path, removed: Remove
) -> None:
    folder = write_model(models / "Tiny")
    weights = tmp_path / "weights"
    (folder / "model.safetensors").rename(weights)
    (folder / "model.safetensors").symlink_to(weights)
    removed("Tiny")
    assert not folder.exists()
    assert weights.is_file()


def test_a_root_that_is_itself_behind_a_link(tmp_path: Path) -> None:
    write_model(tmp_path / "disk" / "Tiny")
    (tmp_path / "models").symlink_to(tmp_path / "disk")
    catalog = Catalog([Root(tmp_path / "models", "maxi-mlx", "folders")])
    remove(planned_removal("Tiny", catalog), catalog)
    assert not (tmp_path / "disk" / "Tiny").exists()


def test_what_is_not_removed(models: Path, tmp_path: Path, removed: Remove) -> None:
    write_model(models / "Tiny-1B-4bit")
    with pytest.raises(InvalidRequest, match=r"is taken for Tiny-1B-4bit .* name it in full"):
        removed("tiny:1b")
    with pytest.raises(ModelNotFound):
        removed("absent")
    half = write_model(models / "half", tensors=None, files=())
    write_model(half / "whole")
    with pytest.raises(InvalidRequest, match="holds whole as well"):
        removed("half")
    root = write_model(tmp_path / "given")
    catalog = Catalog([Root(root, "given", "folders")])
    with pytest.raises(InvalidRequest, match="is not removed here: remove it yourself"):
        planned_removal("given", catalog)
