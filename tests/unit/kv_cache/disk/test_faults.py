"""What is wrong with the disk costs the cache and one warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maxi_mlx.kv_cache.disk.folder import min_free_bytes
from tests.unit.kv_cache.disk.pieces import (
    NAMESPACE,
    chain,
    file_of,
    files,
    heads,
    keys,
    read,
    running,
    wait_until,
    write_all,
)

Mounted = Callable[[str], Path]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    """``mounted("size=1m")`` is a file system of its own, where one can be had."""
    folder = tmp_path / "mounted"

    def mount(options: str) -> Path:
        folder.mkdir()
        if sys.platform != "linux" or not _run("mount", "-t", "tmpfs", "-o", options, "t", folder):
            pytest.skip("no file system can be mounted here")
        return folder

    yield mount
    if folder.is_mount():
        assert _run("umount", folder)


def _run(*command: str | Path) -> bool:
    return not subprocess.run(command, capture_output=True, check=False).returncode


def test_a_full_disk(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    """The real ENOSPC: of names there are fewer than of bytes."""
    folder = mounted("size=10m,nr_inodes=20")
    pieces = chain(30)
    with running(folder, min_free=0, retry_s=0) as tier:
        for kept in pieces:
            tier.write(NAMESPACE, kept)
            wait_until(lambda: not tier.stats.num_queued_bytes)
        assert tier.stats.fault == (
            f"{folder}: no space left on device; make room on this disk, or choose a folder on "
            "another one with --cache-dir"
        )
        assert len(caplog.records) == 1
        num_written = tier.stats.num_written
        assert 0 < num_written < 15
        assert all(read(tier, keys(pieces[:num_written])))
        assert list(folder.rglob("*.tmp")) == []
        assert len(heads(tier)) == num_written


def test_the_last_of_a_disk_is_left_to_others(mounted: Mounted) -> None:
    folder = mounted("size=2m")
    pieces = [chain(1, first=10 * n, num_bytes=16_000)[0] for n in range(300)]
    with running(folder) as tier:
        write_all(tier, pieces)
        assert tier.stats.fault is None
        assert tier.stats.num_evicted > 100
        assert os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize > 90_000
        # Others take some of that: the cache gives as much.
        (folder / "others").write_bytes(bytes(80_000))
        write_all(tier, chain(1, first=10_000, num_bytes=16_000))
        assert os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize > 80_000


def test_a_disk_that_others_have_filled(mounted: Mounted) -> None:
    folder = mounted("size=2m")
    (folder / "others").write_bytes(bytes(1_980_000))
    with running(folder) as tier:
        write_all(tier, chain(1, num_bytes=16_000))
        assert tier.stats.fault is not None
        assert f"{folder}: there is no room" in tier.stats.fault
        assert files(folder) == []


def test_how_much_is_left_to_others() -> None:
    assert min_free_bytes(10**12) == 2_000_000_000
    assert min_free_bytes(10**10) == 500_000_000


def test_a_read_only_disk(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    folder = mounted("size=4m")
    old, new = chain(2), chain(2, first=50)
    with running(folder) as tier:
        write_all(tier, old)
    assert _run("mount", "-o", "remount,ro", folder)
    with running(folder, retry_s=0) as tier:
        assert len(heads(tier)) == 2
        assert all(read(tier, keys(old)))
        for kept in new:
            tier.write(NAMESPACE, kept)
            wait_until(lambda: not tier.stats.num_queued_bytes)
        assert tier.stats.fault == (
            f"{folder}: read-only file system; let this user write there, or choose another folder "
            "with --cache-dir"
        )
        assert len(caplog.records) == 1
        assert _run("mount", "-o", "remount,rw", folder)
        write_all(tier, new)
        assert tier.stats.fault is None
        assert len(files(folder)) == 4


@pytest.mark.parametrize("place", ["kv", "kv/v1"])
def test_a_file_in_place_of_the_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with running(tmp_path / "kv", retry_s=0) as tier:
        assert heads(tier) == []
        assert read(tier, keys(chain(1))) == [None]
        wait_until(lambda: tier.stats.fault is not None)
        what = "it is" if place == "kv" else "v1 in it is"
        assert tier.stats.fault == (
            f"{tmp_path / 'kv'}: {what} not a folder; put the folder back, or choose another one "
            "with --cache-dir"
        )
        assert len(caplog.records) == 1
        path.unlink()
        write_all(tier, chain(1))
        assert tier.stats.fault is None
        assert len(files(tmp_path / "kv")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    os.chown(tmp_path / "v1", 12345, 12345)
    with running(tmp_path) as tier:
        wait_until(lambda: tier.stats.fault is not None)
        assert f"{tmp_path}: v1 in it belongs to another user" in str(tier.stats.fault)
        assert tier.write(NAMESPACE, chain(1)[0]) is False


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with running(tmp_path) as tier:
        wait_until(lambda: tier.stats.fault is not None)
        assert "permission denied; let this user write there" in str(tier.stats.fault)


def test_a_folder_removed_under_way(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "kv"
    old, new = chain(3), chain(3, first=50)
    done: list[None] = []
    with running(folder, retry_s=1000) as tier:
        write_all(tier, old)
        shutil.rmtree(folder)
        for kept in new:
            tier.write(NAMESPACE, kept, on_done=lambda: done.append(None))
        wait_until(lambda: not tier.stats.num_queued_bytes)
        assert f"{folder}: no such file or directory; put the folder back" in str(tier.stats.fault)
        assert len(caplog.records) == 1
        assert read(tier, keys(old)) == [None] * 3
        # Off for a while: nothing is queued in vain.
        num_done = len(done)
        assert tier.write(NAMESPACE, new[0], on_done=lambda: done.append(None)) is False
        assert num_done == len(done)
        tier._retry_at_s = 0.0  # as if its time were over
        write_all(tier, new)
        assert tier.stats.fault is None
        assert len(files(folder)) == 3


def test_a_link_in_place_of_a_piece(tmp_path: Path) -> None:
    """It isn't followed, and is a miss."""
    pieces = chain(2)
    with running(tmp_path) as tier:
        write_all(tier, pieces)
        path = file_of(tmp_path, pieces[1].head.key)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        assert [kept is not None for kept in read(tier, keys(pieces))] == [True, False]
        assert tier.stats.fault is None
