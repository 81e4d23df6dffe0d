"""``maxi-mlx cache`` on folders as servers leave them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.commands import run
from tests.unit.kv_cache.disk.pieces import (
    OTHER_NAMESPACE,
    age,
    chain,
    file_of,
    files,
    fill,
    piece,
    total,
)

LLAMA, GEMMA = "tiny-llama", "tiny-gemma3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three blocks and a checkpoint of one model, two blocks of another."""
    folder = tmp_path / "kept"
    pieces = chain(3)
    pieces.append(piece(pieces[-1].head.key, (9,), kind="checkpoint", start=12))
    fill(folder, pieces)
    fill(folder, chain(2, namespace=OTHER_NAMESPACE), namespace=OTHER_NAMESPACE)
    for path in files(folder):
        age(folder, path.name[:32], 1_700_000_000)
    return folder


def cache(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("cache", *arguments, "--cache-dir", str(folder), home=folder.parent)


def test_list(folder: Path) -> None:
    result = cache(folder, "list")
    assert (result.returncode, result.stderr) == (0, "")
    heads, *rows = [line.split() for line in result.stdout.splitlines()]
    assert heads == ["MODEL", "FORM", "FILES", "TOKENS", "SIZE", "LAST", "USED"]
    assert [row[:6] for row in rows] == [
        [GEMMA, "0123abcd", "|", "states", "2", "8"],
        [LLAMA, "0123abcd", "|", "plain", "4", "12"],
    ]


def test_list_for_programs(folder: Path) -> None:
    result = cache(folder, "list", "--json")
    described = json.loads(result.stdout)
    assert described[1] == {
        "model": LLAMA,
        "form": "0123abcd | plain",
        "num_files": 4,
        "num_tokens": 12,
        "num_bytes": total(folder) - described[0]["num_bytes"],
        "last_used": "2023-11-14T22:13:20+00:00",
    }


def test_a_model_without_its_note_is_named_by_its_pieces(folder: Path) -> None:
    for note in folder.glob("v1/*/namespace.json"):
        note.write_text("{")
    assert [row["model"] for row in json.loads(cache(folder, "list", "--json").stdout)] == [
        GEMMA,
        LLAMA,
    ]


def test_the_default_folder(tmp_path: Path) -> None:
    fill(tmp_path / ".maxi-mlx/cache/kv", chain(1))
    assert LLAMA in run("cache", "list", home=tmp_path).stdout


def test_the_folder_of_the_configuration(folder: Path) -> None:
    (folder.parent / "config.toml").write_text(f'cache_dir = "{folder.name}"\n')
    extra = {"MAXI_MLX_CONFIG": str(folder.parent / "config.toml")}
    assert LLAMA in run("cache", "list", home=folder.parent, extra=extra).stdout


@pytest.mark.parametrize("command", [["list"], ["clear"], ["clear", "--yes"]], ids=" ".join)
def test_nothing_kept(tmp_path: Path, command: list[str]) -> None:
    result = cache(tmp_path, *command)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"No prompts are kept in {tmp_path}\n"


def test_verify_finds_all_whole(folder: Path) -> None:
    result = cache(folder, "verify")
    assert (result.returncode, result.stdout) == (0, "6 files, all whole\n")
    assert result.stderr.startswith("Reading: 0.0 of ")
    assert len(files(folder)) == 6


def test_verify_removes_what_is_bad(folder: Path) -> None:
    path = file_of(folder, chain(1)[0].head.key)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    result = cache(folder, "verify")
    assert (result.returncode, result.stdout) == (1, "6 files, 1 bad and removed\n")
    assert f"{path} is damaged: its data's checksum is wrong\n" in result.stderr
    assert not path.exists()
    assert cache(folder, "verify").returncode == 0


def test_clear_one_model(folder: Path) -> None:
    result = cache(folder, "clear", "--yes", "--model", GEMMA.upper())
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Removed 2 files, ")
    assert len(files(folder)) == 4
    assert [row["model"] for row in json.loads(cache(folder, "list", "--json").stdout)] == [LLAMA]


def test_clear_all_leaves_nothing_but_strangers(folder: Path) -> None:
    stranger = files(folder)[0].with_name("note.txt")
    stranger.touch()
    assert cache(folder, "clear", "--yes").returncode == 0
    left = [path for path in (folder / "v1").rglob("*") if path.is_file()]
    assert stranger in left
    assert {path.name for path in left} <= {"note.txt", "namespace.json"}


def test_clear_asks_first(folder: Path) -> None:
    result = cache(folder, "clear")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "maxi-mlx: nobody can be asked here; say --yes to remove the prompts\n"
    )
    assert len(files(folder)) == 6


def test_faults_are_one_line(folder: Path) -> None:
    gone = folder / "gone"
    for arguments, words in (
        (("list", "--cache-dir", str(gone)), f"flag --cache-dir: {gone} does not exist"),
        (
            ("verify", "--model", "tiny", "--cache-dir", str(folder)),
            f"flag --model: no prompts of 'tiny' are kept; there are: {GEMMA}, {LLAMA}",
        ),
    ):
        result = run("cache", *arguments, home=folder.parent)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == f"maxi-mlx: {words}\n"


def test_help_has_an_example(tmp_path: Path) -> None:
    result = run("cache", "--help", home=tmp_path)
    assert "Example: maxi-mlx cache clear --model SmolLM2-135M-Instruct" in result.stdout
    assert len(result.stdout.splitlines()) <= 24
