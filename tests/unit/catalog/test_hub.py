"""The Hugging Face hub cache: refs, snapshots, and downloads that have not ended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.models import ModelEntry
from tests.unit.catalog.folders import write_model


class HubRepository:
    """Lays files out as huggingface_hub does: blobs, and snapshots of symlinks to them."""

    def __init__(self, cache: Path, folder_name: str) -> None:
        self.path = cache / folder_name
        (self.path / "blobs").mkdir(parents=True)
        (self.path / "refs").mkdir()

    def add(self, revision: str, *, without: tuple[str, ...] = (), context: int = 2048) -> Path:
        snapshot = self.path / "snapshots" / revision
        write_model(snapshot, max_position_embeddings=context)
        for file in list(snapshot.iterdir()):
            blob = self.path / "blobs" / f"{revision}-{file.name}"
            file.rename(blob)
            if file.name in without:
                blob.rename(f"{blob}.incomplete")
            else:
                file.symlink_to(os.path.relpath(blob, snapshot))
        return snapshot

    def point(self, ref: str, revision: str) -> None:
        (self.path / "refs" / ref).write_text(revision)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def hub_catalog(cache: Path) -> Catalog:
    return Catalog([Root(cache, "hub cache", "hub")])


def only_entry(catalog: Catalog) -> ModelEntry:
    (entry,) = catalog.entries()
    return entry


def test_main_decides_among_snapshots(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    main = repository.add("aaa")
    repository.add("bbb")
    repository.point("main", "aaa\n")
    repository.point("pr", "bbb")
    entry = only_entry(hub_catalog)
    assert (entry.id, entry.org_name, entry.source) == ("Tiny", "org/Tiny", "hub cache")
    assert (entry.path, entry.problem, entry.weight_bytes) == (main, None, 96)
    assert hub_catalog.find("org/tiny").path == main
    assert hub_catalog.find("models--org--Tiny").path == main


def test_newest_snapshot_without_main(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    newest = repository.add("aaa")
    os.utime(repository.add("bbb"), (1, 1))
    assert only_entry(hub_catalog).path == newest
    repository.point("main", "ccc")  # moved on; nothing of it is here yet
    assert only_entry(hub_catalog).path == newest


def test_moved_main_is_noticed_by_find(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("aaa")
    repository.point("main", "aaa")
    assert hub_catalog.find("Tiny").path.name == "aaa"
    repository.add("bbb")
    repository.point("main", "bbb")
    assert hub_catalog.find("Tiny").path.name == "bbb"


def test_repository_without_organisation(cache: Path, hub_catalog: Catalog) -> None:
    HubRepository(cache, "models--gpt2").add("aaa")
    entry = only_entry(hub_catalog)
    assert (entry.id, entry.org_name) == ("gpt2", None)


@pytest.mark.parametrize(
    ("without", "gap"),
    [
        (("model.safetensors",), "no weights: model*.safetensors is missing"),
        (("tokenizer.json",), "no tokenizer: tokenizer.json is missing"),
        (("config.json",), "config.json is missing beside the weights"),
        (("config.json", "model.safetensors"), "config.json and the weights are missing"),
    ],
)
def test_half_downloaded_is_named(
    cache: Path, hub_catalog: Catalog, without: tuple[str, ...], gap: str
) -> None:
    HubRepository(cache, "models--org--Tiny").add("aaa", without=without)
    entry = only_entry(hub_catalog)
    files = "1 file is" if len(without) == 1 else f"{len(without)} files are"
    assert (
        entry.problem == f"half-downloaded: {gap}, and {files} unfinished; run the download again"
    )


def test_download_that_only_began(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    (repository.path / "blobs" / "abc.incomplete").write_bytes(b"")
    entry = only_entry(hub_catalog)
    assert (entry.id, entry.kind) == ("Tiny", "unknown")
    assert entry.problem == (
        "half-downloaded: config.json and the weights are missing, and 1 file is unfinished; "
        "run the download again"
    )


def test_finished_download_is_noticed(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    snapshot = repository.add("aaa", without=("model.safetensors",))
    assert only_entry(hub_catalog).problem is not None
    blob = repository.path / "blobs" / "aaa-model.safetensors"
    Path(f"{blob}.incomplete").rename(blob)
    (snapshot / "model.safetensors").symlink_to(blob)
    assert hub_catalog.find("Tiny").problem is None


def test_remains_of_an_old_download_do_no_harm(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("aaa")
    (repository.path / "blobs" / "aaa-model.safetensors.incomplete").write_bytes(b"")
    (repository.path / "blobs" / "zzz.incomplete").write_bytes(b"")
    assert only_entry(hub_catalog).problem is None


def test_lost_blob_is_named(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("aaa")
    (repository.path / "blobs" / "aaa-model.safetensors").unlink()
    assert only_entry(hub_catalog).problem == "model.safetensors is a link to a file that is gone"


def test_what_is_no_model_is_left_out(cache: Path, hub_catalog: Catalog) -> None:
    HubRepository(cache, "models--org--Tiny").add("aaa")
    HubRepository(cache, "datasets--org--data").add("aaa")
    HubRepository(cache, "models--org--empty")
    write_model(cache / "stray")
    tokenizer_alone = HubRepository(cache, "models--org--tokenizer").add("aaa")
    (tokenizer_alone / "config.json").unlink()
    (tokenizer_alone / "model.safetensors").unlink()
    (cache / "version.txt").write_text("1")
    assert [entry.id for entry in hub_catalog.entries()] == ["Tiny"]


@pytest.mark.parametrize("ref", [b"\xff\xfe", b"../../../etc", b"", b"x" * 500], ids=repr)
def test_odd_refs(cache: Path, hub_catalog: Catalog, ref: bytes) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    snapshot = repository.add("aaa")
    (repository.path / "refs" / "main").write_bytes(ref)
    assert only_entry(hub_catalog).path == snapshot


@pytest.mark.parametrize("given", [".", "hub", "hub/models--org--Tiny"])
def test_hub_cache_given_as_a_model_dir(tmp_path: Path, cache: Path, given: str) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("aaa")
    repository.point("main", "aaa")
    catalog = Catalog([Root(tmp_path / given, "given", "folders")])
    assert [(entry.id, entry.org_name) for entry in catalog.entries()] == [("Tiny", "org/Tiny")]


def test_one_snapshot_given_as_a_model_dir(cache: Path) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    snapshot = repository.add("aaa")
    repository.add("bbb")
    repository.point("main", "bbb")
    catalog = Catalog([Root(snapshot, "given", "folders")])
    entry = only_entry(catalog)
    assert (entry.id, entry.org_name, entry.path) == ("Tiny", "org/Tiny", snapshot)


def test_deleted_repository_is_gone(cache: Path, hub_catalog: Catalog) -> None:
    repository = HubRepository(cache, "models--org--Tiny")
    repository.add("aaa")
    assert only_entry(hub_catalog).id == "Tiny"
    shutil.rmtree(repository.path)
    assert hub_catalog.entries() == ()
