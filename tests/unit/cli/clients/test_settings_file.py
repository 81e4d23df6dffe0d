"""A client's settings file is changed whole or not at all, and no copy of it is ever lost."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxi_mlx.cli.clients.guide import SettingsFile
from maxi_mlx.cli.clients.settings_file import Written, write_settings
from maxi_mlx.core.errors import SetupError

NEW = {"model": "m", "env": {"URL": "u"}}
OLD = '{\n  "theme": "dark", // mine\n  "env": {"A": "1"}\n}\n'


def write(path: Path) -> Written:
    return write_settings(SettingsFile(path=path, format="json", settings=NEW))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def test_a_new_file_in_a_new_folder(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "settings.json"
    assert write(path) == Written(path=path, changed=("model", "env"), backup=None)
    assert json.loads(path.read_text()) == NEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["settings.json"]


def test_settings_are_added_and_a_copy_is_kept(path: Path) -> None:
    path.write_text(OLD)
    path.chmod(0o640)
    written = write(path)
    assert written == Written(
        path=path, changed=("model", "env.URL"), backup=path.with_name("settings.json.bak")
    )
    assert path.read_text() == (
        '{\n  "theme": "dark", // mine\n  "env": {"A": "1", "URL": "u"},\n  "model": "m"\n}\n'
    )
    assert written.backup is not None
    assert written.backup.read_text() == OLD
    for each in (path, written.backup):
        assert stat.S_IMODE(each.stat().st_mode) == 0o640


def test_a_second_time_changes_nothing(path: Path) -> None:
    path.write_text(OLD)
    write(path)
    before = {name: (path.parent / name).stat() for name in os.listdir(path.parent)}
    assert write(path) == Written(path=path, changed=(), backup=None)
    assert {name: (path.parent / name).stat() for name in os.listdir(path.parent)} == before


def test_no_copy_is_written_over(path: Path) -> None:
    path.write_text(OLD)
    first = path.with_name("settings.json.bak")
    first.write_text("somebody's own")
    path.with_name("settings.json.bak.1").symlink_to("nowhere")
    written = write(path)
    assert written.backup == path.with_name("settings.json.bak.2")
    assert written.backup.read_text() == OLD
    assert first.read_text() == "somebody's own"


def test_a_link_stays_one(tmp_path: Path, path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text(OLD)
    path.symlink_to(real)
    written = write(path)
    assert path.is_symlink()
    assert written.backup == real.with_name("claude.json.bak")
    assert json.loads(written.backup.read_text().replace("// mine", "")) is not None
    assert '"model": "m"' in real.read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1', "is no JSON that can be read (a comma is missing, line 1), and was left"),
        (b'{"env": 5}', "can't take these settings: env in it is no table, and was left"),
        (b"[1]", "can't take these settings: it is no table"),
        (b'{"a": "\xff"}', "is no text in UTF-8"),
    ],
)
def test_what_can_not_be_read_is_left_alone(path: Path, content: bytes, words: str) -> None:
    path.write_bytes(content)
    with pytest.raises(SetupError) as caught:
        write(path)
    assert caught.value.message.startswith(f"{path} {words}")
    assert "without --write" in caught.value.message
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == ["settings.json"]


def test_a_file_in_the_place_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(SetupError, match="can't be written: not a directory; nothing was changed"):
        write(tmp_path / "a" / "settings.json")


def test_a_folder_in_the_place_of_the_file(path: Path) -> None:
    path.mkdir()
    with pytest.raises(SetupError, match="can't be written: is a directory"):
        write(path)


@pytest.fixture
def guarded() -> Iterator[Path]:
    """A folder in which nothing may be made, not even by root, who becomes somebody else."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        (path / "old.json").write_text(OLD)
        path.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield path
        finally:
            os.seteuid(user)
            path.chmod(0o755)


@pytest.mark.parametrize("name", ["old.json", "new.json", "folder/new.json"])
def test_a_folder_that_may_not_be_written(guarded: Path, name: str) -> None:
    with pytest.raises(SetupError, match="can't be written: permission denied; nothing was"):
        write(guarded / name)
    assert os.listdir(guarded) == ["old.json"]
    assert (guarded / "old.json").read_text() == OLD


def test_a_disk_that_is_full_leaves_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(OLD)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SetupError, match="no space left on device; nothing was changed"):
        write(path)
    assert path.read_text() == OLD
    assert sorted(os.listdir(path.parent)) == ["settings.json", "settings.json.bak"]
