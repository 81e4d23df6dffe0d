"""Torn, foreign, older and misplaced files go, with a line each; strangers are left alone."""

from __future__ import annotations

import fcntl
import logging
from pathlib import Path

import pytest

from maxi_mlx.kv_cache.pieces import root_key
from tests.unit.kv_cache.disk.pieces import (
    NAMESPACE,
    OTHER_NAMESPACE,
    age,
    chain,
    file_of,
    files,
    fill,
    heads,
    keys,
    read,
    running,
)


def test_damaged_files_are_dropped_when_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pieces = chain(3)
    fill(tmp_path, pieces)
    path = file_of(tmp_path, pieces[1].head.key)
    content = bytearray(path.read_bytes())
    content[-10] ^= 4
    path.write_bytes(content)
    with running(tmp_path) as tier:
        assert len(heads(tier)) == 3  # the data isn't looked at
        found = read(tier, keys(pieces))
        assert [kept is not None for kept in found] == [True, False, True]
        assert tier.stats.num_dropped == 1
    assert not path.exists()
    (line,) = [r.getMessage() for r in caplog.records]
    assert line == f"prompt cache: dropped a file: {path} is damaged: its data's checksum is wrong"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"", "is no piece", id="empty"),
        pytest.param(b"what is this", "is no piece", id="foreign"),
        pytest.param(None, "is cut short", id="torn-in-its-header"),
        pytest.param(b"\x10" + b"\0" * 7 + b'{"__metadata__":', "is no piece", id="not-ours"),
    ],
)
def test_files_that_are_none_are_dropped_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, words: str
) -> None:
    pieces = chain(3)
    fill(tmp_path, pieces)
    path = file_of(tmp_path, pieces[1].head.key)
    path.write_bytes(path.read_bytes()[:100] if content is None else content)
    with running(tmp_path) as tier:
        # What hung on it can't be used either.
        assert heads(tier) == [pieces[0].head]
        assert tier.stats.num_dropped == 1
    assert not path.exists()
    (line,) = [r.getMessage() for r in caplog.records]
    assert f"{path} {words}" in line


def test_a_torn_file_is_found_by_its_head(tmp_path: Path) -> None:
    pieces = chain(2)
    fill(tmp_path, pieces)
    path = file_of(tmp_path, pieces[1].head.key)
    path.write_bytes(path.read_bytes()[:-1])
    with running(tmp_path) as tier:
        assert heads(tier) == [pieces[0].head]
    assert not path.exists()


def test_another_versions_files_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxi_mlx.kv_cache.disk.piece_file.FORMAT_VERSION", 0)
    fill(tmp_path, chain(1))
    monkeypatch.undo()
    caplog.set_level(logging.INFO)
    with running(tmp_path) as tier:
        assert heads(tier) == []
        assert tier.stats.num_dropped == 1
    assert files(tmp_path) == []
    assert "has format 0, and this maxi-mlx reads 1" in caplog.text


def test_pieces_in_the_wrong_place_are_dropped(tmp_path: Path) -> None:
    mine, other = chain(2), chain(1, namespace=OTHER_NAMESPACE)
    fill(tmp_path, mine)
    fill(tmp_path, other, namespace=OTHER_NAMESPACE)
    # Another model's piece, named as if it were the first of ours.
    foreign = file_of(tmp_path, other[0].head.key)
    shard = tmp_path / "v1" / root_key(NAMESPACE) / other[0].head.key[:2]
    shard.mkdir(exist_ok=True)
    foreign.rename(shard / f"{other[0].head.key}-{root_key(NAMESPACE)}.safetensors")
    # A piece of ours under another's name.
    path = file_of(tmp_path, mine[1].head.key)
    renamed = path.with_name(f"{path.name[:2]}{'0' * 30}-{mine[0].head.key}.safetensors")
    path.rename(renamed)
    with running(tmp_path) as tier:
        assert heads(tier) == [mine[0].head]
        assert tier.stats.num_dropped == 2
    assert len(files(tmp_path)) == 1


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, chain(1))
    shard = files(tmp_path)[0].parent
    strangers = [
        tmp_path / "note.txt",
        tmp_path / "v1/.DS_Store",
        tmp_path / "v1/other/ab/x.safetensors",
        shard / "model.safetensors",
        shard / "x.tmp",
    ]
    for path in strangers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    with running(tmp_path, limit_bytes=1) as tier:
        assert heads(tier) == []
        assert tier.stats.num_bytes == 0
    assert all(path.exists() for path in strangers)


def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_kept(tmp_path: Path) -> None:
    fill(tmp_path, chain(1))
    shard = files(tmp_path)[0].parent
    dead, living = (shard / f"{'ab' * 16}.{n * 8}.tmp" for n in "12")
    note = shard.parent / "namespace.json.12345678.tmp"
    for path in (dead, living, note):
        path.write_bytes(b"half")
    with living.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with running(tmp_path) as tier:
            assert len(heads(tier)) == 1
    assert [path.exists() for path in (dead, living, note)] == [False, True, False]


def test_orphans_are_removed_once_old(tmp_path: Path) -> None:
    pieces = chain(4)
    fill(tmp_path, pieces)
    file_of(tmp_path, pieces[1].head.key).unlink()
    with running(tmp_path) as tier:
        assert heads(tier) == [pieces[0].head]
        assert tier.stats.num_files == 3  # the parent may be on its way
    for kept in pieces[2:]:
        age(tmp_path, kept.head.key)
    with running(tmp_path) as tier:
        assert heads(tier) == [pieces[0].head]
        assert tier.stats.num_dropped == 2
    assert len(files(tmp_path)) == 1
