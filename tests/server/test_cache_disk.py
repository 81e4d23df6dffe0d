"""The prompt cache's folder under a running server: damaged, full, gone, shared. Answers go on."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.settings import Settings
from tests.server.asking import TEXT, until
from tests.server.conftest import Start
from tests.server.running import Client, started

NUM_PROMPTS = 4


def prompt(number: int) -> list[int]:
    """Two blocks and a bit, none of which another prompt has."""
    return [10 + (number * 37 + place * place) % 400 for place in range(600)]


async def ask(client: Client, number: int, **more: Any) -> tuple[str, int]:
    """The text, and how many of the prompt's tokens were cached."""
    body = {"model": "long", "prompt": prompt(number), "temperature": 0, "max_tokens": 6, **more}
    answer = await client.post(TEXT, json=body)
    assert answer.status == 200, answer.body
    details = answer.json["usage"]["prompt_tokens_details"]
    return answer.json["choices"][0]["text"], details["cached_tokens"]


async def expected(client: Client) -> list[str]:
    return [(await ask(client, number, cache=False))[0] for number in range(NUM_PROMPTS)]


async def written(client: Client, num_files: int) -> None:
    """Until the disk has taken what it was given."""

    def is_written() -> bool:
        disk = client.engine.status().disk
        assert disk is not None
        return disk.num_files >= num_files and not disk.num_queued_bytes

    await until(is_written)


def pieces(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob("*.tmp"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
@pytest.mark.usefixtures("patient_with_disk")
async def test_a_changed_byte_is_found_and_the_answer_right(
    long_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, root = Settings(cache_dir=tmp_path / "kept"), Root(long_model, "tests", "folders")
    async with started() as start:
        client = await start(settings, root)
        texts = await expected(client)
        for number, text in enumerate(texts):
            assert await ask(client, number) == (text, 0)
        await written(client, 3 * NUM_PROMPTS)
    files = pieces(tmp_path)
    assert len(files) >= 3 * NUM_PROMPTS
    for number, path in enumerate(files):
        data = bytearray(path.read_bytes())
        place = (number * 7919) % len(data)  # in headers and in data
        data[place] ^= 1 << number % 8
        path.write_bytes(data)
    async with started() as start:
        client = await start(settings, root)
        for number, text in enumerate(texts):
            assert await ask(client, number) == (text, 0)
        stats = client.engine.status().disk
        assert stats is not None
        assert stats.num_dropped > 0
        assert stats.fault is None
        # What stands there now is what was read anew.
        await written(client, 3 * NUM_PROMPTS)
    assert all("dropped a file" in warning for warning in warnings(caplog))
    # A damaged piece whose parent was lost is found when the parent is there again.
    for cached in (255, 598):
        async with started() as start:
            client = await start(settings, root)
            text, more_cached = await ask(client, 0)
            assert text == texts[0]
            assert more_cached > cached


Spoil = Callable[[Path], None]


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def a_file_instead(folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    folder.write_text("not a folder")


def read_only(folder: Path) -> None:
    assert run_as_root("mount", "-o", "remount,ro", folder)


def full(folder: Path) -> None:
    """Names are used up sooner than bytes."""
    for number in range(1000):
        try:
            (folder / f"others-{number}").touch()
        except OSError:
            return
    raise AssertionError("the disk has no end")


def run_as_root(*command: str | Path) -> bool:
    return not subprocess.run(command, capture_output=True, check=False).returncode


@pytest.fixture
def own_disk(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """``own_disk()`` is a small file system of its own, where one can be had."""
    folder = tmp_path / "mounted"

    def mount() -> Path:
        folder.mkdir()
        options = ("-t", "tmpfs", "-o", "size=20m,nr_inodes=60", "t")
        if sys.platform != "linux" or not run_as_root("mount", *options, folder):
            pytest.skip("no file system can be mounted here")
        return folder

    yield mount
    if folder.is_mount():
        assert run_as_root("umount", folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (removed, "no such file or directory"),
        (a_file_instead, "not a directory"),
        (read_only, "read-only file system"),
        (full, "no space left on device"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_folder_that_fails_costs_the_cache_and_one_warning(
    spoil: Spoil,
    words: str,
    start: Start,
    long_model: Path,
    tmp_path: Path,
    own_disk: Callable[[], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = own_disk() if spoil in (read_only, full) else tmp_path / "kept"
    client = await start(Settings(cache_dir=folder), Root(long_model, "tests", "folders"))
    texts = await expected(client)
    assert await ask(client, 0) == (texts[0], 0)
    await written(client, 3)
    spoil(folder)
    for number in range(1, NUM_PROMPTS):
        assert await ask(client, number) == (texts[number], 0)

    def has_fault() -> bool:
        disk = client.engine.status().disk
        return disk is not None and disk.fault is not None and not disk.num_queued_bytes

    await until(has_fault)
    for number in range(NUM_PROMPTS):  # memory has them all
        assert await ask(client, number) == (texts[number], 599)
    [warning] = warnings(caplog)
    assert words in warning.lower()
    told = (await client.get("/v1/cache/stats")).json["prefix_cache"]["disk"]["fault"]
    assert words in told.lower()
    assert str(folder) in told
    assert (await client.get("/health")).status == 200


@pytest.mark.slow
@pytest.mark.usefixtures("patient_with_disk")
async def test_two_servers_share_a_folder(long_model: Path, tmp_path: Path) -> None:
    settings, root = Settings(cache_dir=tmp_path / "kept"), Root(long_model, "tests", "folders")
    async with started() as start:
        clients = [await start(settings, root) for _ in range(2)]
        texts = await expected(clients[0])
        for turn in range(2):
            for number, text in enumerate(texts):
                for client in clients:
                    assert (await ask(client, number))[0] == text
            for client in clients:
                await written(client, 3 * NUM_PROMPTS)
                assert turn == 0 or (await ask(client, 1))[1] == 599
    async with started() as start:
        client = await start(settings, root)
        for number, text in enumerate(texts):
            assert await ask(client, number) == (text, 599)
    assert not leftovers(tmp_path)
