"""What memory knows of the disk while the two go on: what it has still to take, and what it has
dropped."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from maxi_mlx.kv_cache import inventory
from maxi_mlx.kv_cache.disk.tier import DiskTier
from maxi_mlx.kv_cache.pieces import HostPiece
from maxi_mlx.kv_cache.store import PrefixStore
from tests.engine.kv_cache.memory_disk import MemoryDisk
from tests.engine.kv_cache.test_histories import check
from tests.engine.kv_cache.test_restart import Thread
from tests.engine.kv_cache.texts import MAKERS, Maker, cache_of, contents, growing

TEXT = list(range(1, 41))


class Narrow(MemoryDisk):
    """Its queue has room for one piece."""

    def __init__(self) -> None:
        super().__init__()
        self.num_queued = self.num_refused = 0

    def write(
        self, namespace: str, piece: HostPiece, *, on_done: Callable[[], None] | None = None
    ) -> bool:
        if self.num_queued:
            self.num_refused += 1
            return False
        self.num_queued += 1

        def done() -> None:
            self.num_queued -= 1
            assert on_done is not None
            on_done()

        return super().write(namespace, piece, on_done=done)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_full_queue_takes_the_rest_as_it_empties(make: Maker) -> None:
    """A long prompt is kept at once and is more than the queue: all of it outlives the server."""
    disk = Narrow()
    store = PrefixStore(1 << 20, disk=disk, post=disk.post, block_tokens=4)
    model = store.open("model", make)
    model.keep(TEXT, cache_of(make, TEXT))
    num_refused = disk.num_refused
    disk.run()
    assert disk.num_refused <= num_refused + 1, "it asks when there is room, and not before"
    later = PrefixStore(1 << 20, disk=disk, post=disk.post, block_tokens=4)
    model = later.open("model", make)
    disk.run()
    match, done = model.find(TEXT, most_tokens=40), list[int]()
    assert match.num_tokens_with_disk == 40
    model.restore(match, lambda: done.append(1))
    disk.run()
    assert contents(model.fetch(model.find(TEXT, most_tokens=40))) == contents(cache_of(make, TEXT))


def test_what_left_memory_is_not_offered_any_more() -> None:
    disk = Narrow()
    store = PrefixStore(1 << 20, disk=disk, post=disk.post, block_tokens=4)
    model = store.open("model", growing)
    model.keep(TEXT, cache_of(growing, TEXT))
    store.shrink_to(0)
    disk.run()
    assert len(disk.pieces["model"]) == 1
    check(model, store)
    store.close(model)
    model.keep(TEXT, cache_of(growing, TEXT))
    disk.run()
    assert len(disk.pieces["model"]) == 1


@pytest.mark.slow
def test_what_the_disk_dropped_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Texts come and go; what is known of them does not grow with all that ever came."""
    monkeypatch.setattr(inventory, "_FIRST_SWEEP", 60)
    thread = Thread()
    disk = DiskTier(tmp_path, 60_000, min_free=0)
    disk.start()
    store = PrefixStore(3000, disk=disk, post=thread.post, block_tokens=4)
    model = store.open("model", growing)
    most_known = 0
    dice = random.Random(1)
    for _ in range(100):
        text = [dice.randrange(1000) for _ in range(20)]
        model.keep(text, cache_of(growing, text))
        thread.run_until(lambda: not disk.stats.num_queued_bytes)
        most_known = max(most_known, len(model._inventory.nodes))
    check(model, store)
    stats = disk.stats
    disk.close()
    assert stats.num_evicted > 200
    assert most_known < 3 * stats.num_files + 60


def test_with_no_memory_nothing_is_looked_up_or_counted() -> None:
    store = PrefixStore(0)
    model = store.open("model", growing)
    model.keep(TEXT, cache_of(growing, TEXT))
    match = model.find(TEXT, most_tokens=40)
    assert contents(model.fetch(match)) == contents(growing())
    stats = store.stats()
    assert (stats.num_misses, stats.hit_rate) == (0, None)
    store.budget_bytes = 1 << 20
    model.keep(TEXT, cache_of(growing, TEXT))
    assert model.find(TEXT, most_tokens=40).num_tokens == 40


def test_figures_are_there_at_once() -> None:
    """They are read four times a second, beside running answers."""
    store = PrefixStore(1 << 30, block_tokens=4)
    model = store.open("model", growing)
    dice = random.Random(1)
    while store.stats().num_pieces < 1000:
        text = [dice.randrange(1000) for _ in range(400)]
        model.keep(text, cache_of(growing, text))
    began = time.thread_time()
    for _ in range(100):
        store.stats()
    assert time.thread_time() - began < 0.05
