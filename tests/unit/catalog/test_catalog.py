"""The catalog keeps up with the folders, cheaply, whatever else lies in them."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from maxi_mlx.catalog import catalog as catalog_module
from maxi_mlx.catalog import folders as folders_module
from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.errors import ModelNotFound
from tests.unit.catalog.folders import LLAMA, write_json, write_model, write_safetensors


def ids(catalog: Catalog) -> list[str]:
    return [entry.id for entry in catalog.entries()]


@pytest.mark.parametrize("place", ["", "Tiny", "org/Tiny"])
def test_depths_at_which_models_are_found(models: Path, catalog: Catalog, place: str) -> None:
    write_model(models / place)
    (entry,) = catalog.entries()
    assert entry.id == (Path(place).name or "models")
    assert entry.path == models / place


def test_too_deep_hidden_and_inner_folders_are_left_out(models: Path, catalog: Catalog) -> None:
    write_model(models / "Tiny")
    write_model(models / "Tiny" / "original")
    write_model(models / "a" / "b" / "Deep")
    write_model(models / ".partial-download")
    write_model(models / "org" / ".trash")
    assert ids(catalog) == ["Tiny"]


def test_missing_root_is_empty(tmp_path: Path) -> None:
    assert Catalog([Root(tmp_path / "none", "none", "folders")]).entries() == ()


@pytest.fixture
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> float:
    """Listings are remembered after 20 ms instead of two seconds; gives the wait for that."""
    monkeypatch.setattr(folders_module, "SETTLE_NS", 20_000_000)
    return 0.03


@pytest.mark.parametrize("is_remembered", [False, True], ids=["young", "remembered"])
def test_changes_are_noticed(
    models: Path, catalog: Catalog, quick_clock: float, *, is_remembered: bool
) -> None:
    def wait() -> None:
        if is_remembered:
            time.sleep(quick_clock)
            catalog.entries()

    first = write_model(models / "First")
    wait()
    assert ids(catalog) == ["First"]

    write_model(models / "org" / "Second")
    wait()
    assert ids(catalog) == ["First", "Second"]
    assert catalog.find("second").org_name == "org/Second"

    write_json(first / "config.json", {**LLAMA, "max_position_embeddings": 9})
    assert catalog.find("First").context_length == 9
    wait()
    write_json(first / "config.json", {**LLAMA, "max_position_embeddings": 8})
    assert catalog.entries()[0].context_length == 8

    wait()
    write_safetensors(first / "model.safetensors", {"a": 5})
    assert catalog.find("First").weight_bytes == 5

    wait()
    (first / "tokenizer.json").unlink()
    assert catalog.find("First").problem == "no tokenizer: tokenizer.json is missing"
    wait()
    write_json(first / "tokenizer.json", {})
    assert catalog.find("First").problem is None

    wait()
    first.rename(models / "Renamed")
    assert ids(catalog) == ["Renamed", "Second"]
    with pytest.raises(ModelNotFound):
        catalog.find("First")

    wait()
    shutil.rmtree(models)
    assert ids(catalog) == []


def test_change_that_keeps_size_and_modification_time_is_noticed(
    models: Path, catalog: Catalog, quick_clock: float
) -> None:
    config = write_model(models / "Tiny") / "config.json"
    time.sleep(quick_clock)
    before = catalog.entries()[0].context_length
    times = config.stat()
    config.write_text(config.read_text().replace("2048", "4096"))
    os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (before, catalog.find("Tiny").context_length) == (2048, 4096)


def test_nothing_is_read_again_while_nothing_changes(
    models: Path, catalog: Catalog, quick_clock: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_model(models / f"model-{number}")
    time.sleep(quick_clock)
    first = catalog.entries()
    monkeypatch.delattr(catalog_module, "classify")
    monkeypatch.delattr(folders_module, "_list")
    assert catalog.entries() is first
    assert catalog.find("model-1") is first[1]


def test_ten_thousand_unrelated_files_cost_under_a_second(models: Path, catalog: Catalog) -> None:
    write_model(models / "org" / "Tiny")
    for folder in (models, models / "org", models / "photos"):
        folder.mkdir(exist_ok=True)
        for number in range(3334):
            (folder / f"photo-{number}.jpg").touch()
    started = time.process_time()
    assert ids(catalog) == ["Tiny"]
    first_s = time.process_time() - started
    started = time.process_time()
    catalog.find("Tiny")
    again_s = time.process_time() - started
    assert first_s < 1
    assert again_s < 0.5


def test_symlink_loops_and_special_files_do_no_harm(
    models: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = write_model(models / "org" / "Tiny")
    (models / "loop").symlink_to(models)
    (models / "org" / "up").symlink_to("..")
    (models / "self").symlink_to("self")
    (models / "ping").symlink_to("pong")
    (models / "pong").symlink_to("ping")
    (tiny / "inside").symlink_to(tiny)
    os.mkfifo(models / "pipe.safetensors")
    os.mkfifo(tiny / "model-extra.safetensors")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(models)  # a socket's path must be short
        listener.bind("socket.gguf")
        (entry,) = catalog.entries()
    assert (entry.id, entry.problem) == ("Tiny", None)


def test_unreadable_folders_and_files_do_no_harm(
    as_nobody: None, caplog: pytest.LogCaptureFixture
) -> None:
    with tempfile.TemporaryDirectory() as name:
        models = Path(name)
        write_model(models / "Tiny")
        secret = write_model(models / "secret")
        half = write_model(models / "half")
        (half / "model.safetensors").chmod(0)
        secret.chmod(0)
        catalog = Catalog([Root(models, "given", "folders")])
        with caplog.at_level(logging.WARNING):
            entries = {entry.id: entry.problem for entry in catalog.entries()}
            catalog.entries()
        secret.chmod(0o700)
        assert entries == {
            "Tiny": None,
            "half": "model.safetensors can't be read: Permission denied",
        }
        assert caplog.messages == [
            f"The folder {secret} can't be read (Permission denied): models in it are not listed"
        ]
        assert sorted(ids(catalog)) == ["Tiny", "half", "secret"]


def test_threads_see_whole_inventories(models: Path, catalog: Catalog) -> None:
    write_model(models / "Stays")
    stop = threading.Event()
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            while not stop.is_set():
                assert catalog.find("stays").id == "Stays"
                assert set(ids(catalog)) <= {"Stays", "Comes"}
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        write_model(models / "Comes")
        shutil.rmtree(models / "Comes")
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []


def test_catalog_imports_nothing_heavy(models: Path) -> None:
    write_model(models / "Tiny")
    code = (
        "import sys, pathlib\n"
        "from maxi_mlx.catalog.catalog import Catalog, Root\n"
        "entries = Catalog([Root(pathlib.Path(sys.argv[1]), 'given', 'folders')]).entries()\n"
        "heavy = {'mlx', 'mlx_lm', 'transformers', 'numpy', 'tokenizers', 'huggingface_hub'}\n"
        "print(entries[0].problem, sorted(heavy & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", code, str(models)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "None []\n"
