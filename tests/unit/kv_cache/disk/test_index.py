"""What goes first when room is needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.kv_cache.disk.index import ORPHAN_AGE_NS, FileIndex, PieceFile

ROOT = "root"
NOW_NS = 2 * ORPHAN_AGE_NS


def file(key: str, parent: str = ROOT, used_ns: int = NOW_NS, num_bytes: int = 1) -> PieceFile:
    return PieceFile(ROOT, key, parent, num_bytes, used_ns)


def order(*files: PieceFile) -> list[str]:
    return [v.key for v in FileIndex(files).victims(10**9, now_ns=NOW_NS)]


def test_longest_unused_first() -> None:
    assert order(file("a", used_ns=NOW_NS), file("b", used_ns=NOW_NS - 1)) == ["b", "a"]


def test_children_before_parents() -> None:
    parent = file("a", used_ns=1)
    child = file("b", "a", used_ns=NOW_NS)
    other = file("c", used_ns=NOW_NS - 1)
    assert order(parent, child, other) == ["c", "b", "a"]


def test_orphans_first_unless_just_written() -> None:
    old = file("a", used_ns=0)
    orphan = file("b", "gone", used_ns=NOW_NS - ORPHAN_AGE_NS - 1)
    young = file("c", "gone", used_ns=NOW_NS)
    assert order(old, orphan, young) == ["b", "a", "c"]
    assert [f.key for f in FileIndex((old, orphan, young)).orphans(NOW_NS)] == ["b"]


def test_descendants_of_orphans_are_orphans() -> None:
    files = [file("b", "gone", used_ns=0), file("c", "b", used_ns=0), file("a", used_ns=0)]
    assert {f.key for f in FileIndex(files).orphans(NOW_NS)} == {"b", "c"}


def test_no_more_than_asked_for() -> None:
    index = FileIndex(file(str(n), used_ns=n, num_bytes=10) for n in range(5))
    assert [v.key for v in index.victims(15, now_ns=NOW_NS)] == ["0", "1"]
    assert index.victims(0, now_ns=NOW_NS) == []


def test_pieces_that_are_each_others_parents_end() -> None:
    index = FileIndex([file("a", "b", used_ns=0), file("b", "a", used_ns=0)])
    assert index.chains(ROOT) == []
    assert {f.key for f in index.orphans(NOW_NS)} == {"a", "b"}


@given(
    st.lists(
        st.tuples(st.integers(-1, 30), st.integers(0, NOW_NS), st.integers(1, 100)), max_size=30
    ),
    st.integers(0, 3000),
)
def test_what_stays_hangs_together(drawn: list[tuple[int, int, int]], num_bytes: int) -> None:
    """Each piece's parent is an earlier one or the root."""
    files = [
        file(str(n), ROOT if parent < 0 or not n else str(parent % n), used_ns, size)
        for n, (parent, used_ns, size) in enumerate(drawn)
    ]
    index = FileIndex(files)
    for victim in index.victims(num_bytes, now_ns=NOW_NS):
        index.remove(victim.key)
    kept = [f for f in files if f.key in index]
    assert all(f.parent == ROOT or f.parent in index for f in kept)
    assert index.num_bytes == sum(f.num_bytes for f in kept)
    assert index.usage(ROOT) == (len(kept), index.num_bytes)
    assert sum(f.num_bytes for f in files) - index.num_bytes >= min(
        num_bytes, sum(f.num_bytes for f in files)
    )
    assert {f.key for f in index.chains(ROOT)} == {f.key for f in kept}
