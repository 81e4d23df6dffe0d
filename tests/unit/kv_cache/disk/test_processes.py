"""Several processes on one folder, and processes killed as they write."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.kv_cache.disk.pieces import (
    NAMESPACE,
    OTHER_NAMESPACE,
    chain,
    files,
    heads,
    keys,
    read,
    running,
    same,
    total,
)

pytestmark = pytest.mark.slow

NUM_KILLS = 100
PIECE_BYTES = 1_000_000
LENGTH = 300


def writer(
    folder: Path, limit_bytes: int, *, namespace: str = NAMESPACE, first: int = 0, num_bytes: int
) -> subprocess.Popen[str]:
    arguments = (folder, limit_bytes, namespace, first, LENGTH, num_bytes)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.kv_cache.disk.writer", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def kill_while_writing(folder: Path, delay_s: float) -> int:
    """How many pieces the process says it had written."""
    process = writer(folder, 10**9, num_bytes=PIECE_BYTES)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay_s)
    process.kill()
    rest, _ = process.communicate()
    # The last line may be cut by the kill as well.
    lines = rest.split("\n")[:-1]
    return int(lines[-1]) if lines else 0


@pytest.mark.timeout(600)
def test_killed_a_hundred_times(tmp_path: Path) -> None:
    chance = random.Random(4)
    pieces = chain(LENGTH, num_bytes=PIECE_BYTES)
    num_leftovers = num_written = 0
    for number in range(NUM_KILLS):
        folder = tmp_path / str(number)
        at_least = kill_while_writing(folder, chance.uniform(0, 0.03))
        num_leftovers += len(list(folder.rglob("*.tmp")))
        with running(folder) as tier:
            found = heads(tier)
            assert found == [kept.head for kept in pieces[: len(found)]]
            assert at_least <= len(found) <= at_least + 1
            back = read(tier, keys(pieces[: len(found)]))
            assert all(map(same, back, pieces))
            assert tier.stats.num_dropped == 0
            assert list(folder.rglob("*.tmp")) == []
        num_written += at_least
        shutil.rmtree(folder)
    # Otherwise nothing of the above was tried.
    assert num_leftovers >= 5
    assert num_written >= 20


def test_two_processes_keep_one_limit(tmp_path: Path) -> None:
    limit_bytes, num_bytes = 3_000_000, 20_000
    namespaces = (NAMESPACE, OTHER_NAMESPACE, NAMESPACE)
    processes = [
        writer(tmp_path, limit_bytes, namespace=namespace, first=n * 1000, num_bytes=num_bytes)
        for n, namespace in enumerate(namespaces)
    ]
    most_bytes = 0
    while any(process.poll() is None for process in processes):
        most_bytes = max(most_bytes, _total(tmp_path))
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert limit_bytes / 2 < most_bytes <= limit_bytes * 1.02
    with running(tmp_path, limit_bytes) as tier:
        for namespace in (NAMESPACE, OTHER_NAMESPACE):
            found = heads(tier, namespace=namespace)
            back = read(tier, [head.key for head in found], namespace=namespace)
            assert all(back)
        assert tier.stats.num_dropped == 0
    assert total(tmp_path) <= limit_bytes


def _total(folder: Path) -> int:
    """Files may go while this looks."""
    num_bytes = 0
    for path in files(folder):
        try:
            num_bytes += os.stat(path).st_size
        except FileNotFoundError:
            continue
    return num_bytes
