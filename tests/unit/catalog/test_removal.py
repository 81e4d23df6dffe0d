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
from maxi_mlx.core.model_settings import ModelSettings
from tests.unit.catalog.folders import write_json, write_model
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
    assert (removal.path, removal.num_revisions) == (models / "org" / "Tiny", None)
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
    lock = lock_file(repository.path)
    lock.parent.mkdir(parents=True)
    with (
        locked(lock, Remembered()),
        pytest.raises(InvalidRequest, match="it is being fetched or removed right now"),
    ):
        removed("Tiny")
    removed("Tiny")
    assert not repository.path.exists()


def test_what_is_fetched_since_it_was_planned_stays(cache: Path, catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("a" * 40)
    lock = lock_file(repository.path)
    lock.parent.mkdir(parents=True)
    removal = planned_removal("Tiny", catalog)
    with locked(lock, Remembered()), pytest.raises(InvalidRequest, match="is being fetched"):
        remove(removal, catalog)
    assert (repository.path / "refs").is_dir()


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


def test_the_name_of_a_link_removes_nothing(models: Path, removed: Remove) -> None:
    folder = write_model(models / "Tiny")
    (models / "newest").symlink_to(folder)
    with pytest.raises(InvalidRequest, match="name it in full: Tiny"):
        removed("newest")
    assert folder.is_dir()


def test_an_alias_removes_nothing(models: Path) -> None:
    write_model(models / "Tiny")
    settings = {"Tiny": ModelSettings(aliases=("gpt-4o",))}
    catalog = Catalog([Root(models, "models", "folders")], settings)
    assert catalog.find("gpt-4o").id == "Tiny"
    with pytest.raises(InvalidRequest, match="name it in full: Tiny"):
        planned_removal("gpt-4o", catalog)


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


@pytest.mark.parametrize(
    ("name", "text"),
    [("film.gguf", "x"), ("old.safetensors", "x"), ("config.json", "{ // of a project")],
)
def test_a_folder_that_may_hold_anything_stays(
    models: Path, removed: Remove, name: str, text: str
) -> None:
    folder = models / "Downloads"
    folder.mkdir(parents=True)
    (folder / name).write_text(text)
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(InvalidRequest, match="holds nothing else: remove that yourself"):
        removed("Downloads")
    assert (folder / "letter.txt").is_file()


def test_a_project_around_a_model_that_is_not_served_stays(models: Path, removed: Remove) -> None:
    project = write_model(models / "Project", tensors=None)
    (project / "source").mkdir()
    with pytest.raises(InvalidRequest, match="remove that yourself"):
        removed("Project")
    (project / "source").rename(project / ".cache")
    removed("Project")
    assert not project.exists()


def test_no_hub_cache_by_its_name_alone(models: Path, removed: Remove) -> None:
    folder = models / "models--backup"
    folder.mkdir(parents=True)
    (folder / "x.gguf").write_text("x")
    with pytest.raises(InvalidRequest, match="remove that yourself"):
        removed("backup")
    assert folder.is_dir()


@pytest.mark.parametrize("where", ["itself", "inside", "by a link"])
def test_a_folder_that_is_looked_in_stays_whatever_root_comes_first(
    models: Path, tmp_path: Path, where: str
) -> None:
    folder = write_model(models / "Tiny")
    given = folder / "more" if where == "inside" else folder
    given.mkdir(exist_ok=True)
    if where == "by a link":
        given = tmp_path / "link"
        given.symlink_to(folder)
    catalog = Catalog([Root(models, "models", "folders"), Root(given, "given", "folders")])
    with pytest.raises(InvalidRequest, match="looked for in"):
        planned_removal("Tiny", catalog)


def test_a_snapshot_that_is_given_by_hand_stays(cache: Path) -> None:
    snapshot = HubRepository(cache, "models--org--Tiny").add("a" * 40)
    roots = [Root(snapshot, "given", "folders"), Root(cache, "hub cache", "hub")]
    with pytest.raises(InvalidRequest, match="looked for in"):
        planned_removal("Tiny", Catalog(roots))


def test_an_adapter_inside_its_model_keeps_it(models: Path) -> None:
    folder = write_model(models / "Tiny")
    write_json(folder / "mine" / "adapter_config.json", {"model": "Tiny"})
    catalog = Catalog([Root(models, "models", "folders")], adapter_dirs=[folder])
    with pytest.raises(InvalidRequest, match="holds Tiny:mine as well"):
        planned_removal("Tiny", catalog)


def test_a_name_that_two_models_share_removes_neither(
    models: Path, cache: Path, catalog: Catalog, removed: Remove
) -> None:
    write_model(models / "a" / "Tiny")
    write_model(models / "b" / "Tiny")
    for name in ("Tiny", "tiny:latest"):
        with pytest.raises(InvalidRequest, match="name it in full: a/Tiny"):
            removed(name)
    HubRepository(cache, "models--b--Tiny").add("a" * 40)
    with pytest.raises(InvalidRequest, match="name it in full: b/Tiny"):
        removed("B/tiny")
    removed("b/Tiny:latest")
    assert [str(entry.path.parent) for entry in catalog.entries()] == [
        str(models / "a"),
        str(cache / "models--b--Tiny" / "snapshots"),
    ]
