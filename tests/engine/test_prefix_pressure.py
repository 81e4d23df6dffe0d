"""The prefix cache beside rows that need the memory, a disk that is slow, and faults of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.core.settings import Settings
from maxi_mlx.engine import prefixes
from maxi_mlx.engine.batch import DecodeBatch
from maxi_mlx.engine.row import PromptJob, Row
from maxi_mlx.kv_cache.pieces import HostPiece
from tests.conftest import TinyModel
from tests.engine.asking import ask, make_request
from tests.engine.conftest import LoadTiny, make_engine
from tests.engine.desk import BALANCED, Desk
from tests.engine.kv_cache.memory_disk import MemoryDisk
from tests.engine.test_batch import alone, make_row, prompt_of
from tests.engine.test_prefixes import cached_tokens
from tests.engine.test_soak import quiet

MEGABYTES = 1 << 20


def filled(desk: Desk, count: int = 10) -> int:
    """Stores some prefixes; gives their bytes."""
    for seed in range(count):
        desk.submit(prompt_of(200, seed), max_tokens=4)
        desk.run()
    assert desk.store.num_bytes > 0
    return desk.store.num_bytes


def test_a_row_alone_gets_what_is_stored(load_tiny: LoadTiny) -> None:
    """It has nobody to wait for, and yet it must not outgrow the memory."""
    model = load_tiny("llama")
    desk = Desk(model, cache_bytes=64 * MEGABYTES)
    stored = filled(desk, 40)
    desk.budget = 0
    (row,) = desk.submit(prompt_of(200, 50), max_tokens=20)
    desk.scheduler.prepare(outbox := [])
    desk.news += outbox
    assert desk.store.num_bytes <= stored - model.kv_cost.row_bytes(220)
    # It grows while it is alone, too.
    desk.budget = -2 * model.kv_cost.row_bytes(256)
    stored = desk.store.num_bytes
    desk.scheduler._keep_within_memory([])
    assert desk.store.num_bytes <= stored - model.kv_cost.row_bytes(256)
    desk.budget = 1 << 30
    desk.run()
    assert desk.tokens(row) == alone(model, prompt_of(200, 50), 20)


def test_nothing_is_given_up_for_a_row_that_would_wait_all_the_same(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    desk = Desk(model, cache_bytes=64 * MEGABYTES)
    filled(desk, 2)
    desk.submit(prompt_of(30, 50), max_tokens=30)
    desk.step(3)
    desk.budget = -64 * MEGABYTES
    stored = desk.store.num_bytes
    (second,) = desk.submit(prompt_of(30, 51), max_tokens=4)
    desk.step(3)
    assert desk.scheduler.num_running == 1
    assert desk.store.num_bytes == stored
    desk.budget = 1 << 30
    desk.run()
    assert len(desk.tokens(second)) == 4


def test_whoever_holds_a_prompt_does_not_hold_its_cache(load_tiny: LoadTiny) -> None:
    """The engine keeps the job of a request until its answer is done."""
    desk = Desk(load_tiny("llama"))
    desk.submit(prompt_of(10, 1), max_tokens=100)
    desk.step(3)
    text = prompt_of(200, 2)
    rows = [
        make_row(mailbox=object(), token_ids=list(text), num_prompt_tokens=len(text), max_tokens=50)
    ]
    job = PromptJob(token_ids=text, rows=rows)
    desk.scheduler.submit(job)
    while desk.scheduler.num_decoding < 2:
        desk.step()
    assert job.cache == []


@pytest.mark.parametrize("uses_cache", [True, False])
def test_a_long_prompt_is_kept_slice_by_slice(load_tiny: LoadTiny, uses_cache: bool) -> None:
    """Copied at once, it would hold up everybody; another that comes meanwhile finds it, too."""
    desk = Desk(
        load_tiny("llama"), replace(BALANCED, prefill_slice_tokens=128), cache_bytes=MEGABYTES
    )
    desk.has_slices_of(128)
    text = prompt_of(500, 1)
    desk.submit(text, max_tokens=4, uses_cache=uses_cache)
    stored = []
    while desk.scheduler.reading.jobs or not stored:
        desk.step()
        stored.append(desk.store.stats().num_tokens)
    if uses_cache:
        assert stored == sorted(stored)
        assert 256 in stored
        assert stored[-1] == 499
    else:
        assert stored[-1] == 0


class Silent(MemoryDisk):
    """It has everything and says nothing, until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.kept_back: list[Callable[[], None]] = []
        self.is_broken = False

    def read(
        self,
        namespace: str,
        keys: Sequence[str],
        on_done: Callable[[list[HostPiece | None]], None],
    ) -> None:
        if self.is_broken:
            raise RuntimeError("a fault of the disk")
        self.num_read += len(keys)
        self.kept_back.append(lambda: super(Silent, self).read(namespace, keys, on_done))

    def answer(self) -> None:
        waiting, self.kept_back = self.kept_back, []
        for read in waiting:
            read()
        self.run()


def restarted(load_tiny: LoadTiny, disk: MemoryDisk) -> Desk:
    """A desk whose prefixes are all on disk."""
    desk = Desk(load_tiny("llama"), cache_bytes=MEGABYTES, disk=disk)
    disk.run()
    for seed in range(3):
        desk.submit(prompt_of(300, seed), max_tokens=2)
        desk.run()
    disk.run()
    desk = Desk(load_tiny("llama"), cache_bytes=MEGABYTES, disk=disk)
    disk.run()
    return desk


def test_a_disk_that_is_silent_is_waited_for_once(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(prefixes.time, "monotonic", lambda: now_s[0])
    disk = Silent()
    desk = restarted(load_tiny, disk)

    def ask(seed: int) -> Row:
        return desk.submit(prompt_of(300, seed), max_tokens=3)[0]

    first = ask(0)
    desk.step(3)
    assert desk.scheduler.num_waiting == 1
    assert not desk.tokens(first)
    now_s[0] += 6
    desk.step()
    desk.run()
    assert len(desk.tokens(first)) == 3
    second = ask(1)  # nobody else waits for it
    desk.run()
    assert desk.tokens(second) == alone(load_tiny("llama"), prompt_of(300, 1), 3)
    disk.answer()  # late, but it lives
    third = ask(2)
    desk.step(2)
    assert desk.scheduler.num_waiting == 1
    disk.answer()
    desk.run()
    assert desk.tokens(third) == alone(load_tiny("llama"), prompt_of(300, 2), 3)
    assert desk.store.stats().num_restores > 0


def test_a_disk_that_fails_is_not_waited_for(load_tiny: LoadTiny) -> None:
    disk = Silent()
    desk = restarted(load_tiny, disk)
    disk.is_broken = True
    (row,) = desk.submit(prompt_of(300, 1), max_tokens=3)
    desk.step()
    assert desk.scheduler.num_running == 1
    desk.run()
    assert desk.tokens(row) == alone(load_tiny("llama"), prompt_of(300, 1), 3)


def test_a_client_that_leaves_while_the_disk_is_read_is_gone(load_tiny: LoadTiny) -> None:
    disk = Silent()
    desk = restarted(load_tiny, disk)
    (row,) = desk.submit(prompt_of(300, 1), max_tokens=3)
    desk.step()
    row.cancelled = True
    desk.scheduler.cancel(row.mailbox)
    assert desk.scheduler.num_waiting == 0
    disk.answer()
    desk.step(3)
    assert not desk.scheduler.has_work
    assert not desk.of(row)


def test_a_row_under_suspicion_takes_nothing_that_is_stored(load_tiny: LoadTiny) -> None:
    """What it was given may be what broke the batch."""
    model = load_tiny("llama")
    desk = Desk(model, cache_bytes=MEGABYTES)
    desk.submit(prompt_of(100, 1), max_tokens=2)
    desk.run()
    text = prompt_of(100, 1)
    row = make_row(
        mailbox=object(), token_ids=list(text), num_prompt_tokens=len(text), max_tokens=5
    )
    job = PromptJob(token_ids=text, rows=[row], must_read_alone=True)
    desk.scheduler.submit(job)
    desk.scheduler.prepare([])
    assert job.num_processed == 0
    desk.run()
    assert desk.tokens(row) == alone(model, text, 5)


def test_rows_that_started_before_others_failed_do_not_run_twice(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts read together go into two batches, for their lengths; the second can't start."""
    model = load_tiny("llama")
    entry = replace(model.entry, weight_bytes=0)  # any padding outweighs them
    desk = Desk(replace(model, entry=entry), replace(BALANCED, prefill_slice_tokens=4096))
    for seed in (10, 11):  # it learns how much a slice may be
        desk.submit(prompt_of(500, seed), max_tokens=1)
        desk.run()
    join, failures = DecodeBatch.join, [RuntimeError("no memory")]

    def failing(batch: DecodeBatch, newcomers: Any, **more: Any) -> None:
        if failures and len(newcomers[0].row.token_ids) > 256:
            raise failures.pop()
        join(batch, newcomers, **more)

    monkeypatch.setattr(DecodeBatch, "join", failing)
    prompts = [prompt_of(10, 1), prompt_of(300, 2)]
    rows = [desk.submit(prompt, max_tokens=8)[0] for prompt in prompts]
    desk.run()
    assert not failures
    for row, prompt in zip(rows, prompts, strict=True):
        assert desk.tokens(row) == alone(model, prompt, 8)


def test_a_prompt_that_comes_before_the_disk_has_said_what_it_has_waits(
    load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one after a start, which loads the model, has the most to gain."""
    now_s = [1000.0]
    monkeypatch.setattr(prefixes.time, "monotonic", lambda: now_s[0])
    disk = MemoryDisk()
    restarted(load_tiny, disk)
    desk = Desk(load_tiny("llama"), cache_bytes=MEGABYTES, disk=disk)
    # Kept now, it would hide the longer text that the disk has.
    (short,) = desk.submit(prompt_of(100, 1), max_tokens=2)
    (first,) = desk.submit(prompt_of(300, 1), max_tokens=3)
    desk.run()
    assert len(desk.tokens(short)) == 2
    assert desk.scheduler.num_waiting == 1
    disk.run()
    desk.run()
    disk.run()
    desk.run()
    assert cached_tokens(desk, first) == 299
    assert desk.tokens(first) == alone(load_tiny("llama"), prompt_of(300, 1), 3)
    # One whose disk takes longer than reading it would.
    desk = Desk(load_tiny("llama"), cache_bytes=MEGABYTES, disk=disk)
    (second,) = desk.submit(prompt_of(300, 1), max_tokens=3)
    desk.step()
    now_s[0] += 0.4
    desk.step()
    desk.run()
    assert cached_tokens(desk, second) == 0
    assert desk.tokens(second) == alone(load_tiny("llama"), prompt_of(300, 1), 3)
    assert desk.scheduler.prefixes._disk_rests_until_s == 0
    disk.run()
    desk.run()
    assert desk.scheduler.num_waiting == 0


@pytest.mark.slow
async def test_what_is_stored_keeps_to_the_limit_of_the_memory(tiny_model: TinyModel) -> None:
    # Without a disk: until it has listed its files, nothing is kept.
    settings = Settings(cache_disk_bytes=0)
    async with make_engine([tiny_model("llama")], settings) as engine:
        for seed in range(6):
            await ask(engine, make_request(prompt_of(400, seed)))
        await quiet(engine)
        store = engine._device._store
        assert store is not None
        # Asked on its own thread: the published figures are a moment old.
        stored = await engine._device.call(lambda: store.num_bytes)
        assert stored > 6 * 200_000
        gc.collect()
        engine._device.limit_bytes = mx.get_active_memory() - 200_000
        await ask(engine, make_request(prompt_of(20, 9), uses_cache=False))
        await quiet(engine)
        left = await engine._device.call(lambda: store.num_bytes)
        assert 0 < left <= stored - 200_000


async def test_what_is_stored_is_freed_on_its_own_thread(tiny_model: TinyModel) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await ask(engine, make_request(prompt_of(400, 1)))
        store = engine._device._store
        assert store is not None
        assert store.num_bytes > 0
    assert store.num_bytes == 0
