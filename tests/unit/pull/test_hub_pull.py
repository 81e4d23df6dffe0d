"""A model from a hub: whole, after a cut, damaged, without room, refused, unreachable."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import pytest
from huggingface_hub import constants

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.catalog.pull.hub import transfer
from maxi_mlx.catalog.pull.hub.pulling import Pulled, pull_repository
from maxi_mlx.catalog.pull.hub.repository import Repository
from maxi_mlx.catalog.pull.hub.transfer import Abandoned
from maxi_mlx.core.errors import DownloadFailed, Forbidden, MaxiError, ModelNotFound, SetupError
from tests.hub import COMMIT, FakeHub
from tests.unit.catalog.folders import TENSORS, write_model
from tests.unit.pull.conftest import Remembered

NAME = "org/Tiny-4bit"
BESIDE = {
    "README.md": b"# Tiny",
    "tiny.gguf": b"GGUF",
    "pytorch_model.bin": b"x",
    ".gitattributes": b"",
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = write_model(
        tmp_path_factory.mktemp("hub") / "Tiny", tensors={**TENSORS, "model.norm.weight": 100_000}
    )
    return {**{path.name: path.read_bytes() for path in folder.iterdir()}, **BESIDE}


@pytest.fixture
def hub(files: dict[str, bytes]) -> Iterator[FakeHub]:
    with FakeHub({NAME: files}) as hub:
        yield hub


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(transfer, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "hub"


def pull(
    hub: FakeHub, progress: Remembered | None = None, *, name: str = NAME, revision: str = "main"
) -> Pulled:
    repository = Repository(name, revision)
    return pull_repository(repository, progress or Remembered(), endpoint=hub.url)


def parts(cache: Path) -> list[int]:
    return [path.stat().st_size for path in cache.rglob("*.incomplete")]


def test_a_model_comes_whole_and_is_found_by_the_library_and_the_catalog(
    hub: FakeHub, files: dict[str, bytes], cache: Path, remembered: Remembered
) -> None:
    pulled = pull(hub, remembered)
    served = set(files) - set(BESIDE)
    assert {path.name for path in pulled.folder.iterdir()} == served
    for name in served:
        assert (pulled.folder / name).read_bytes() == files[name]
    [entry] = Catalog([Root(cache, "hub cache", "hub")]).entries()
    assert (entry.id, entry.org_name, entry.problem) == ("Tiny-4bit", NAME, None)
    [repository] = huggingface_hub.scan_cache_dir(cache).repos
    [revision] = repository.revisions
    assert (revision.commit_hash, revision.refs) == (COMMIT, frozenset({"main"}))
    found = huggingface_hub.try_to_load_from_cache(NAME, "config.json", cache_dir=cache)
    assert found == str(pulled.folder / "config.json")
    # The bar's end is that of all files.
    assert remembered.counts == [sum(len(files[name]) for name in served)]
    assert remembered.num_done == 1
    hub.asked.clear()
    assert pull(hub).num_fetched_bytes == 0
    assert hub.fetched == []


def test_a_cut_is_taken_up_where_it_was(hub: FakeHub, cache: Path, remembered: Remembered) -> None:
    hub.cut_at, hub.num_cuts = 40_000, 1
    pull(hub, remembered)
    assert hub.fetched[-2:] == ["model.safetensors", "model.safetensors bytes=40000-"]
    assert any("broke off" in text for text in remembered.texts)
    assert parts(cache) == []


def test_what_was_left_by_an_earlier_run_is_taken_up(
    hub: FakeHub, files: dict[str, bytes], cache: Path, remembered: Remembered
) -> None:
    hub.cut_at, hub.num_cuts = 0, 100
    with pytest.raises(DownloadFailed, match="broke off: the connection was closed early"):
        pull(hub)
    hub.cut_at, hub.num_cuts = 30_000, 1
    weights = files["model.safetensors"]
    [part] = cache.rglob("*.incomplete")
    part.write_bytes(weights[:20_000])
    hub.asked.clear()
    pull(hub, remembered)
    assert hub.fetched == ["model.safetensors bytes=20000-", "model.safetensors bytes=50000-"]
    [(_, total, already)] = remembered.jobs
    assert already == total - len(weights) + 20_000
    [blob] = [path for path in cache.rglob("blobs/*") if path.stat().st_size == len(weights)]
    assert blob.read_bytes() == weights


def test_one_at_a_time_in_one_cache_whatever_the_homes(
    hub: FakeHub, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.stall_at = 40_000
    second = Remembered()
    with ThreadPoolExecutor(2) as threads:
        pulls = [threads.submit(pull, hub)]
        assert hub.stalled.wait(60)
        monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path / "another"))
        pulls.append(threads.submit(pull, hub, second))
        ends_at = time.monotonic() + 60
        while not second.texts and time.monotonic() < ends_at:
            time.sleep(0.01)
        hub.go_on.set()
        folders = {each.result().folder for each in pulls}
    assert "waiting for it to end" in second.texts[0]
    assert [(each / "model.safetensors").read_bytes() for each in folders] == [
        files["model.safetensors"]
    ]


def test_a_server_that_knows_no_ranges_begins_anew(
    hub: FakeHub, files: dict[str, bytes], remembered: Remembered
) -> None:
    hub.knows_ranges, hub.cut_at, hub.num_cuts = False, 40_000, 1
    folder = pull(hub, remembered).folder
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]
    assert remembered.counts == [remembered.jobs[0][1]]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_removed(hub: FakeHub, cache: Path, name: str) -> None:
    hub.damaged.add(name)
    with pytest.raises(DownloadFailed, match=rf"{name} of {NAME} came damaged: .* removed; run"):
        pull(hub)
    assert parts(cache) == []
    assert not list(cache.rglob(f"snapshots/*/{name}"))
    hub.damaged.clear()
    assert pull(hub).num_fetched_bytes > 0


def test_a_full_disk_is_told_before_anything_comes(
    hub: FakeHub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(64_000_000))
    with pytest.raises(SetupError, match=r"Not enough room .* 64 MB are free.*HF_HUB_CACHE"):
        pull(hub)
    assert hub.fetched == []


def test_a_disk_that_fills_up_meanwhile(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DownloadFailed, match=r"no space left on device.*run the command again"):
        pull(hub)


def test_a_disk_that_takes_a_part_of_the_last_bytes(
    hub: FakeHub, files: dict[str, bytes], cache: Path
) -> None:
    weights = files["model.safetensors"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(weights) - 1, limits[1]))
    try:
        with pytest.raises(DownloadFailed, match=r"file too large.*What is there is kept"):
            pull(hub)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert parts(cache) == [len(weights) - 1]
    assert (pull(hub).folder / "model.safetensors").read_bytes() == weights


def test_gated_models(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    hub.gated = frozenset({NAME})
    with pytest.raises(Forbidden, match=r"agree to its terms on http.*then set HF_TOKEN"):
        pull(hub)
    monkeypatch.setenv("HF_TOKEN", "hf_bad")
    with pytest.raises(Forbidden, match=r"the account of the token in HF_TOKEN may not read it"):
        pull(hub)
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert pull(hub).num_fetched_bytes > 0


def test_large_files_are_elsewhere_and_the_token_is_not_shown_there(
    hub: FakeHub, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    with FakeHub({NAME: files}, cut_at=40_000, num_cuts=1) as storage:
        hub.storage = storage.url
        folder = pull(hub).folder
        assert storage.fetched == [
            "tokenizer.json",
            "model.safetensors",
            "model.safetensors bytes=40000-",
        ]
        assert storage.shown_tokens == []
    assert hub.shown_tokens
    assert (folder / "model.safetensors").read_bytes() == files["model.safetensors"]


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"name": "org/Tiny-8bit"}, ModelNotFound, f"There is no model .* mean {NAME}.*HF_TOKEN"),
        ({"revision": "v9"}, ModelNotFound, "has no revision 'v9'. Leave it out"),
        ({"name": "org/gguf"}, ModelNotFound, "holds GGUF files.* Nothing was fetched"),
        ({"name": "org/bare"}, ModelNotFound, "has no config.json"),
        ({"name": "org/torch"}, ModelNotFound, "holds PyTorch files"),
        ({"name": "org/empty"}, ModelNotFound, "holds no model"),
    ],
)
def test_what_can_not_be_fetched(
    hub: FakeHub, more: dict[str, str], error: type[MaxiError], words: str
) -> None:
    hub.repositories = {
        **hub.repositories,
        "org/gguf": {"tiny.gguf": b"x", "config.json": b"{}"},
        "org/bare": {"model.safetensors": b"x"},
        "org/torch": {"config.json": b"{}", "pytorch_model.bin": b"x"},
        "org/empty": {"README.md": b"x"},
    }
    with pytest.raises(error, match=words):
        pull(hub, **more)
    assert hub.fetched == []


def test_a_revision_beside_main(hub: FakeHub, cache: Path) -> None:
    pull(hub, revision="v2")
    assert [path.name for path in cache.glob("*/refs/*")] == ["v2"]


def test_hubs_that_answer_otherwise(hub: FakeHub) -> None:
    hub.fails_with = 200
    with pytest.raises(DownloadFailed, match=r"does not answer as a .* Name another by --from"):
        pull(hub)
    hub.fails_with = 503
    with pytest.raises(DownloadFailed, match="answers status 503, service unavailable"):
        pull(hub)


@pytest.mark.parametrize("num_bytes", [-1, 10**400, 1.5, "9"], ids=["-1", "huge", "half", "text"])
def test_sizes_that_are_none(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, num_bytes: Any) -> None:
    def sibling(name: str, _: bytes) -> dict[str, Any]:
        return {"rfilename": name, "size": num_bytes, "blobId": "a" * 40}

    monkeypatch.setattr("tests.hub._sibling", sibling)
    with pytest.raises(DownloadFailed, match="does not answer as a Hugging Face hub"):
        pull(hub)


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DownloadFailed, match="can't be reached: connection refused"):
        pull_repository(Repository(NAME), Remembered(), endpoint="http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadFailed, match="HF_HUB_OFFLINE is set"):
        pull_repository(Repository(NAME), Remembered(), endpoint="http://127.0.0.1:9")


def test_a_pull_that_nobody_wants_any_more_keeps_what_it_has(hub: FakeHub, cache: Path) -> None:
    hub.cut_at, hub.num_cuts = 40_000, 1
    remembered = Remembered()
    with pytest.raises(Abandoned):
        pull_repository(
            Repository(NAME),
            remembered,
            endpoint=hub.url,
            is_wanted=lambda: not any("broke off" in text for text in remembered.texts),
        )
    assert parts(cache) == [40_000]


def test_a_disk_without_links(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    files = {**files, "added_tokens.json": b"{}", "special_tokens_map.json": b"{}"}
    hub.repositories = {NAME: files}

    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    folder = pull(hub).folder
    weights = folder / "model.safetensors"
    assert not weights.is_symlink()
    for path in folder.iterdir():
        assert path.read_bytes() == files[path.name]
    assert pull(hub).num_fetched_bytes == 0
