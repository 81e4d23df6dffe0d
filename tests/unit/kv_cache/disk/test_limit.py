"""The folder's limit: what goes for it, over all models, and beside another server."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from maxi_mlx.kv_cache.disk.folder import NAMESPACE_FILE
from tests.unit.kv_cache.disk.pieces import (
    LONG_AGO_S,
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
    total,
    wait_until,
    write_all,
)


def test_the_limit_holds_at_start_over_all_models(tmp_path: Path) -> None:
    mine, other = chain(10), chain(10, namespace=OTHER_NAMESPACE)
    fill(tmp_path, mine)
    fill(tmp_path, other, namespace=OTHER_NAMESPACE)
    for kept in mine:
        age(tmp_path, kept.head.key)
    one = total(tmp_path) // 20
    with running(tmp_path, limit_bytes=13 * one) as tier:
        assert heads(tier, namespace=OTHER_NAMESPACE) == [kept.head for kept in other]
        # Of the older, the beginning is left.
        left = heads(tier)
        assert 0 < len(left) < 4
        assert left == [kept.head for kept in mine[: len(left)]]
        assert tier.stats.num_evicted == 10 - len(left)
    assert total(tmp_path) <= 13 * one


def test_the_limit_holds_while_writing(tmp_path: Path) -> None:
    pieces = [p for n in range(30) for p in chain(2, first=10 * n)]
    with running(tmp_path, limit_bytes=20_000) as tier:
        for kept in pieces:
            write_all(tier, [kept])
            assert total(tmp_path) <= 20_000
        found = {head.key for head in heads(tier)}
        assert tier.stats.num_evicted + len(found) == 60
        assert tier.stats.num_bytes == total(tmp_path)
    assert set(keys(pieces[-2:])) <= found
    assert not set(keys(pieces[:2])) & found


def test_what_was_used_stays(tmp_path: Path) -> None:
    pieces = [chain(1, first=10 * n)[0] for n in range(6)]
    fill(tmp_path, pieces)
    for place, kept in enumerate(pieces):
        age(tmp_path, kept.head.key, LONG_AGO_S + place)
    one = total(tmp_path) // 6
    with running(tmp_path) as tier:
        wait_until(lambda: tier.stats.num_files == 6)
        tier.touch(keys(pieces[:1]))
        read(tier, keys(pieces[1:2]))
    with running(tmp_path, limit_bytes=3 * one) as tier:
        assert {head.key for head in heads(tier)} == set(keys(pieces[:2]))


def test_a_chain_is_never_cut_in_its_middle(tmp_path: Path) -> None:
    """A growing conversation, whose beginning is oldest. It takes the room of all others, and then
    grows no more: what it would have to give up for that is itself."""
    pieces = chain(40)
    with running(tmp_path, limit_bytes=20_000) as tier:
        write_all(tier, chain(3, first=100))
        for kept in pieces:
            write_all(tier, [kept])
        found = heads(tier)
        assert found == [kept.head for kept in pieces[: len(found)]]
        assert len(found) == tier.stats.num_files > 10
        assert tier.stats.num_evicted == 3
        assert tier.stats.fault is None


def test_a_piece_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, limit_bytes=1000) as tier:
        assert tier.write(NAMESPACE, chain(1, num_bytes=2000)[0]) is False
        write_all(tier, chain(1, num_bytes=900))  # with its header it is too large
        assert tier.stats.fault is None
        assert (tier.stats.num_skipped, tier.stats.num_files) == (2, 0)


def test_what_another_removed_is_a_miss(tmp_path: Path) -> None:
    pieces = chain(3)
    fill(tmp_path, pieces)
    with running(tmp_path) as tier:
        heads(tier)
        file_of(tmp_path, pieces[1].head.key).unlink()
        assert [kept is not None for kept in read(tier, keys(pieces))] == [True, False, True]
        tier.touch(keys(pieces))
        write_all(tier, pieces)  # it can be written again
        assert all(read(tier, keys(pieces)))
        assert tier.stats.fault is None


def test_a_cleared_folder_is_written_anew(tmp_path: Path) -> None:
    first, second = chain(2), chain(2, first=50)
    with running(tmp_path) as tier:
        write_all(tier, first)
        for path in sorted((tmp_path / "v1").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        write_all(tier, second)
        assert tier.stats.fault is None
        assert len(files(tmp_path)) == 2


def test_a_note_that_is_taken_for_a_leftover_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a server that starts, between the making of the file and its lock."""
    lock, taken = fcntl.flock, []

    def lock_too_late(descriptor: int, operation: int) -> None:
        if not taken:
            for note in (tmp_path / "v1").rglob(f"{NAMESPACE_FILE}.*.tmp"):
                note.unlink()
                taken.append(note)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with running(tmp_path) as tier:
        write_all(tier, chain(2))
        assert tier.stats.fault is None
    assert len(taken) == 1
    assert len(files(tmp_path)) == 2


def test_two_tiers_keep_one_limit(tmp_path: Path) -> None:
    limit_bytes = 60_000
    with running(tmp_path, limit_bytes) as one, running(tmp_path, limit_bytes) as two:
        for n in range(40):
            for tier, namespace in ((one, NAMESPACE), (two, OTHER_NAMESPACE)):
                pieces = chain(2, namespace=namespace, first=10 * n)
                write_all(tier, pieces, namespace=namespace)
                assert total(tmp_path) <= limit_bytes
        assert one.stats.fault is two.stats.fault is None
        assert one.stats.num_written == two.stats.num_written == 80
