"""Pieces go to disk behind the caller's back, and come back after a restart."""

from __future__ import annotations

import json
import stat
import threading
import weakref
from pathlib import Path

import pytest

from maxi_mlx.kv_cache.disk.tier import DiskTier, DiskUsage
from maxi_mlx.kv_cache.pieces import HostArray, HostPiece, root_key
from tests.unit.kv_cache.disk.pieces import (
    NAMESPACE,
    OTHER_NAMESPACE,
    answer,
    chain,
    files,
    fill,
    heads,
    keys,
    piece,
    read,
    running,
    same,
    stopped,
    wait_until,
    write_all,
)


def test_found_again_after_a_restart(tmp_path: Path) -> None:
    pieces = chain(5)
    pieces.append(piece(pieces[-1].head.key, (9,), kind="checkpoint", start=20))
    fill(tmp_path, pieces)
    with running(tmp_path) as tier:
        assert heads(tier) == [kept.head for kept in pieces]
        found = read(tier, keys(pieces))
        assert all(map(same, found, pieces))
        assert (tier.stats.num_read, tier.stats.num_files, tier.stats.num_written) == (6, 6, 0)
        assert tier.usage(NAMESPACE) == DiskUsage(6, sum(f.stat().st_size for f in files(tmp_path)))


def test_nobody_else_finds_them(tmp_path: Path) -> None:
    pieces = chain(2)
    fill(tmp_path, pieces)
    with running(tmp_path) as tier:
        assert heads(tier, namespace=OTHER_NAMESPACE) == []
        assert read(tier, keys(pieces), namespace=OTHER_NAMESPACE) == [None, None]
        assert tier.usage(OTHER_NAMESPACE) == DiskUsage(0, 0)


def test_only_this_user_may_read(tmp_path: Path) -> None:
    folder = tmp_path / "cache/kv"
    fill(folder, chain(1))
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_an_open_folder_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1").chmod(0o755)
    fill(tmp_path, chain(1))
    assert stat.S_IMODE((tmp_path / "v1").stat().st_mode) == 0o700


def test_a_note_names_the_model(tmp_path: Path) -> None:
    fill(tmp_path, chain(1))
    note = tmp_path / "v1" / root_key(NAMESPACE) / "namespace.json"
    assert json.loads(note.read_text()) == {"namespace": NAMESPACE}


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    pieces = chain(2)
    with running(tmp_path) as tier:
        write_all(tier, pieces)
        write_all(tier, pieces)
        assert tier.stats.num_written == 2
        assert tier.stats.num_skipped == 0


def test_a_piece_without_its_parent_is_skipped(tmp_path: Path) -> None:
    pieces = chain(3)
    with running(tmp_path) as tier:
        write_all(tier, [pieces[0], pieces[2]])
        assert keys(pieces[:1]) == [head.key for head in heads(tier)]
        assert tier.stats.num_skipped == 1


def test_what_is_queued_can_be_read_and_is_listed(tmp_path: Path) -> None:
    pieces = chain(3)
    found: list[object] = []
    with running(tmp_path) as tier:
        with stopped(tier):
            for kept in pieces:
                assert tier.write(NAMESPACE, kept)
            tier.read(NAMESPACE, keys(pieces), found.append)
            tier.read(OTHER_NAMESPACE, keys(pieces), found.append)
            tier.listen(NAMESPACE, found.append)
            assert files(tmp_path) == []
        wait_until(lambda: len(found) == 3)
    assert found == [pieces, [None, None, None], [kept.head for kept in pieces]]


def test_reads_come_before_queued_writes(tmp_path: Path) -> None:
    old, new = chain(1), chain(5, first=100)
    fill(tmp_path, old)
    order: list[str] = []
    with running(tmp_path) as tier:
        with stopped(tier):
            for kept in new:
                tier.write(NAMESPACE, kept, on_done=lambda: order.append("written"))
            tier.read(NAMESPACE, keys(old), lambda _: order.append("read"))
        wait_until(lambda: len(order) == 6)
    assert order == ["read", *["written"] * 5]


def test_the_queue_has_a_bound(tmp_path: Path) -> None:
    pieces = chain(4, num_bytes=1000)
    with running(tmp_path, queue_bytes=2500) as tier:
        with stopped(tier):
            assert [tier.write(NAMESPACE, kept) for kept in pieces] == [True, True, False, False]
            assert tier.stats.num_queued_bytes == 2000
            assert tier.stats.num_skipped == 2
        wait_until(lambda: not tier.stats.num_queued_bytes)
        write_all(tier, pieces[2:])
        assert len(heads(tier)) == 4


def test_a_piece_larger_than_the_queue_goes_alone(tmp_path: Path) -> None:
    with running(tmp_path, queue_bytes=100) as tier:
        write_all(tier, chain(1, num_bytes=1000))
        assert tier.stats.num_written == 1


def test_nothing_refers_to_a_piece_once_it_is_done(tmp_path: Path) -> None:
    class Buffer(bytearray):
        """As MLX's arrays, to be freed where they belong."""

    states: list[bool] = []
    with running(tmp_path) as tier:
        for data_bytes, kept in zip((4, 5), chain(2), strict=True):  # the second is refused
            buffer = Buffer(data_bytes)
            alive = weakref.ref(buffer)
            arrays = {"x": HostArray("U8", (4,), memoryview(buffer))}
            tier.write(
                NAMESPACE,
                HostPiece(kept.head, arrays),
                on_done=lambda alive=alive: states.append(alive() is not None),
            )
            del buffer, arrays
        wait_until(lambda: len(states) == 2)
        assert (tier.stats.num_written, tier.stats.num_skipped) == (1, 1)
    assert states == [False, False]


def test_close_writes_what_is_queued(tmp_path: Path) -> None:
    pieces = chain(20)
    tier = DiskTier(tmp_path, 10**9)
    tier.start()
    assert all(tier.write(NAMESPACE, kept) for kept in pieces)
    tier.close()
    assert not tier._thread.is_alive()
    assert len(files(tmp_path)) == 20
    assert tier.write(NAMESPACE, chain(1, first=50)[0]) is False
    assert answer(lambda tell: tier.read(NAMESPACE, keys(pieces[:1]), tell)) == [None]
    assert answer(lambda tell: tier.listen(NAMESPACE, tell)) == []


def test_close_does_not_wait_for_ever(tmp_path: Path) -> None:
    pieces = chain(60)
    num_done = 0
    may_go_on = threading.Event()

    def held_up() -> None:
        nonlocal num_done
        num_done += 1
        if num_done == 5:
            may_go_on.wait(60)

    tier = DiskTier(tmp_path, 10**9)
    tier.start()
    for kept in pieces:
        tier.write(NAMESPACE, kept, on_done=held_up)
    try:
        wait_until(lambda: num_done == 5)
        tier.close(timeout_s=0.1)
    finally:
        may_go_on.set()
    wait_until(lambda: not tier._thread.is_alive())
    assert num_done == 60
    assert 0 < len(files(tmp_path)) < 30


def test_everybody_is_told_once_when_it_closes(tmp_path: Path) -> None:
    fill(tmp_path, chain(100))
    told: list[int] = []
    tier = DiskTier(tmp_path, 10**9)
    tier.start()
    with stopped(tier):
        for _ in range(3):
            tier.listen(NAMESPACE, lambda found: told.append(len(found)))
        tier.close(timeout_s=-1)
    wait_until(lambda: not tier._thread.is_alive())
    assert told == [0, 0, 0]


def test_the_thread_survives_what_a_piece_or_a_callback_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError("not the disk's fault")

    good = chain(2)
    bad = HostPiece(good[0].head, {"x": HostArray("F32", (5,), memoryview(b"1"))})
    with running(tmp_path) as tier:
        tier.write(NAMESPACE, bad)
        tier.write(NAMESPACE, good[0], on_done=fail)
        tier.listen(NAMESPACE, fail)
        tier.read(NAMESPACE, [], fail)
        wait_until(lambda: not tier.stats.num_queued_bytes)
        write_all(tier, good)
        assert len(read(tier, keys(good))) == 2
        assert tier.stats.fault is None
        assert tier.stats.num_skipped == 1
    assert [r.levelname for r in caplog.records] == ["ERROR"] * 4
