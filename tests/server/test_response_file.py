"""The file of kept responses: what is found again, its limits, and what may be wrong with it."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.core.settings import Settings
from maxi_mlx.server.response_file import KeptResponse, ResponseFile
from maxi_mlx.server.response_store import ResponseStore

DAY_S = 86_400.0


def item(id: str, text: str = "") -> dict[str, Any]:
    return {"type": "message", "id": id, "content": text}


def kept(id: str, previous_id: str | None = None, *, text: str = "é\u2028😀") -> KeptResponse:
    return KeptResponse(
        id=id,
        previous_id=previous_id,
        body={"id": id, "output": [item(f"out_{id}", text)]},
        input_items=[item(f"in_{id}", text)],
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "responses.sqlite"


def opened(path: Path, *, limit_bytes: int = 2**20, max_age_s: float = DAY_S) -> ResponseFile:
    return ResponseFile(path, limit_bytes=limit_bytes, max_age_s=max_age_s)


def test_nothing_is_made_before_something_is_saved(path: Path) -> None:
    file = opened(path)
    assert (file.get("a"), file.chain("a"), file.items(["x"]), file.delete("a")) == (
        None,
        None,
        {},
        False,
    )
    assert not path.parent.exists()


def test_what_was_saved_is_there_after_a_restart_for_this_user_alone(path: Path) -> None:
    old = os.umask(0)
    try:
        file = opened(path)
        assert file.save(kept("a"), now_s=0)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}, modes
    file.close()
    again = opened(path)
    assert again.get("a") == kept("a")
    assert again.items(["in_a", "out_a", "none"]) == {
        "in_a": item("in_a", "é\u2028😀"),
        "out_a": item("out_a", "é\u2028😀"),
    }
    again.close()


def test_chains(path: Path) -> None:
    file = opened(path)
    for id, previous_id in (("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("x", "gone")):
        file.save(kept(id, previous_id), now_s=0)
    assert [each.id for each in file.chain("c") or ()] == ["a", "b", "c"]
    assert [each.id for each in file.chain("d") or ()] == ["a", "d"]
    assert file.chain("x") is None
    assert file.delete("b")
    assert not file.delete("b")
    assert file.chain("c") is None
    assert file.items(["in_b"]) == {}
    file.close()


def test_what_is_in_use_stays_and_the_rest_grows_old(path: Path) -> None:
    file = opened(path, max_age_s=10)
    file.save(kept("a"), now_s=0)
    file.save(kept("b", "a"), now_s=0)
    file.save(kept("c"), now_s=0)
    file.touch("b", now_s=8)
    file.save(kept("d"), now_s=11)
    assert [id for id in "abcd" if file.get(id)] == ["a", "b", "d"]
    file.close()


def test_the_file_keeps_its_limit(path: Path) -> None:
    limit_bytes = 400_000
    file = opened(path, limit_bytes=limit_bytes)
    for number in range(60):
        assert file.save(kept(f"r{number:02d}", text="x" * 10_000), now_s=number)
    # Those that were used last are there.
    there = [number for number in range(60) if file.get(f"r{number:02d}")]
    assert there == list(range(there[0], 60))
    assert len(there) >= 5
    assert not file.save(kept("large", text="x" * limit_bytes), now_s=99)
    assert file.get("large") is None
    file.close()
    assert path.stat().st_size <= limit_bytes
    # What is gone is gone from the disk too.
    assert b"in_r00" not in path.read_bytes()


def test_two_processes_share_a_file(path: Path) -> None:
    one, two = opened(path), opened(path)
    one.save(kept("a"), now_s=0)
    two.save(kept("b", "a"), now_s=0)
    assert [each.id for each in one.chain("b") or ()] == ["a", "b"]
    # The other one may also remove the file.
    two.close()
    for each in path.parent.iterdir():
        each.unlink()
    assert one.get("a") is None
    one.save(kept("c"), now_s=0)
    assert one.get("c") == kept("c")
    one.close()


# -- the store, which outlives all of it ---------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path / "own"))
    return tmp_path / "own"


def write_nonsense(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database" * 1000)


def write_other_version(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize("spoil", [write_nonsense, write_other_version])
async def test_a_file_that_cant_be_read_is_set_aside(
    home: Path, caplog: pytest.LogCaptureFixture, spoil: Any
) -> None:
    spoil(home / "responses.sqlite")
    store = ResponseStore(Settings())
    assert await store.get("a") is None
    await store.save(kept("a"))
    assert await store.get("a") == kept("a")
    await store.close()
    assert "responses.sqlite.unreadable" in os.listdir(home)
    [record] = caplog.records
    assert "is set aside" in record.message


@pytest.fixture
def blocked_home(home: Path) -> None:
    home.write_text("in the way of the folder")


async def test_a_place_that_cant_be_written_costs_one_warning(
    blocked_home: None, caplog: pytest.LogCaptureFixture
) -> None:
    store = ResponseStore(Settings())
    for _ in range(3):
        await store.save(kept("a"))
    assert await store.get("a") is None
    await store.close()
    [record] = caplog.records
    assert "can't be used" in record.message


@pytest.mark.parametrize("settings", [Settings(store=False), Settings(store_bytes=0)])
async def test_a_store_that_is_off_keeps_nothing(home: Path, settings: Settings) -> None:
    store = ResponseStore(settings)
    assert not store.is_on
    await store.save(kept("a"))
    assert await store.get("a") is None
    assert await store.items(["in_a"]) == {}
    await store.close()
    assert home.name not in os.listdir(home.parent)


async def test_a_response_that_is_too_large_is_told(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ResponseStore(Settings(store_bytes=1000))
    await store.save(kept("a", text="x" * 2000))
    await store.close()
    assert "too large to be kept" in caplog.text
