"""What was written is found by the next store of the same model, through the real disk tier."""

from __future__ import annotations

import gc
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.kv_cache.disk.tier import DiskTier
from maxi_mlx.kv_cache.host_arrays import from_host, to_host
from maxi_mlx.kv_cache.model_store import ModelStore
from maxi_mlx.kv_cache.pieces import HostArray, HostPiece
from maxi_mlx.kv_cache.store import PrefixStore
from tests.engine.conftest import LoadTiny
from tests.engine.kv_cache.memory_disk import MemoryDisk
from tests.engine.kv_cache.texts import MAKERS, cache_of, contents, growing, hybrid

FAMILIES = ("llama", "gemma3", "lfm2", "qwen3_5", "mamba2", "llama4")
TEXT = list(range(1, 41))


@pytest.fixture(autouse=True)
def steady_memory() -> Iterator[None]:
    """What earlier tests left in circles would be freed under way."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Thread:
    """The device thread's part: runs what others post."""

    def __init__(self) -> None:
        self._posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.post = self._posted.put

    def run_until(self, is_done: Callable[[], bool]) -> None:
        end_s = time.monotonic() + 60
        while not is_done():
            assert time.monotonic() < end_s
            try:
                self._posted.get(timeout=0.05)()
            except queue.Empty:
                continue


@contextmanager
def opened(folder: Path, make: Callable[[], list[object]]) -> Iterator[tuple[ModelStore, Thread]]:
    thread = Thread()
    disk = DiskTier(folder, 1 << 30, min_free=0)
    disk.start()
    store = PrefixStore(1 << 30, disk=disk, post=thread.post, block_tokens=8)
    try:
        yield store.open("model|weights|plain", make), thread
    finally:
        disk.close()


def restored(model: ModelStore, thread: Thread, text: list[int]) -> list[object]:
    """A fetched cache of all but the last token, once it was read."""
    most_tokens = len(text) - 1
    thread.run_until(lambda: model.find(text, most_tokens=most_tokens).num_on_disk > 0)
    done: list[int] = []
    model.restore(model.find(text, most_tokens=most_tokens), lambda: done.append(1))
    thread.run_until(lambda: bool(done))
    match = model.find(text, most_tokens=most_tokens)
    assert match.num_tokens == most_tokens
    assert match.num_on_disk == 0
    return model.fetch(match)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_server_goes_on_where_the_last_one_was(
    family: str, load_tiny: LoadTiny, tmp_path: Path
) -> None:
    model = load_tiny(family)
    text = [int(i) for i in np.random.default_rng(1).integers(10, 400, 40)]
    cache = model.new_cache()
    model.model(mx.array([text[:-1]]), cache=cache)
    with opened(tmp_path / "kv", model.new_cache) as (store, _):
        store.keep(text[:-1], cache)
    expected = model.model(mx.array([text[-1:]]), cache=cache)
    with opened(tmp_path / "kv", model.new_cache) as (store, thread):
        again = restored(store, thread, text)
        assert store.stats().num_restores == store.stats().num_pieces > 0
    got = model.model(mx.array([text[-1:]]), cache=again)
    assert mx.allclose(got, expected, atol=1e-5).item()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.uint32], ids=str)
def test_an_array_goes_to_host_memory_and_back(dtype: mx.Dtype) -> None:
    array = (mx.arange(24).reshape(1, 2, 3, 4) * 3).astype(dtype)
    mx.eval(array)
    host = to_host(array)
    assert host.num_bytes == array.nbytes
    again = from_host(host)
    assert again.dtype == dtype
    assert again.shape == array.shape
    assert mx.array_equal(again, array).item()


def test_host_memory_is_not_copied_and_outlives_the_array() -> None:
    array = mx.ones((256, 1024))
    mx.eval(array)
    before = mx.get_active_memory()
    host = to_host(array)
    assert mx.get_active_memory() == before
    del array
    assert mx.get_active_memory() == before
    assert np.frombuffer(host.data, np.float32).sum() == 256 * 1024
    del host
    assert mx.get_active_memory() < before


def test_host_memory_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError):
        from_host(HostArray("F32", (3, 3), memoryview(bytes(8))))
    with pytest.raises(ValueError, match="no dtype 'F8'"):
        from_host(HostArray("F8", (8,), memoryview(bytes(8))))


def test_what_the_disk_still_needs_is_freed_on_this_thread() -> None:
    disk = MemoryDisk()
    store = PrefixStore(1 << 20, disk=disk, post=disk.post, block_tokens=256)
    model = store.open("model", growing)
    disk.run()
    before = mx.get_active_memory()
    model.keep(list(range(200)), cache_of(growing, range(200)))
    store.shrink_to(0)
    assert store.num_bytes == 0
    assert mx.get_active_memory() > before
    disk.run()
    assert mx.get_active_memory() == before


def restart(disk: MemoryDisk, make: Callable[[], list[object]] = growing) -> ModelStore:
    store = PrefixStore(1 << 20, disk=disk, post=disk.post, block_tokens=8)
    model = store.open("model", make)
    disk.run()
    return model


def restore_all(disk: MemoryDisk, model: ModelStore, text: list[int]) -> int:
    done: list[int] = []
    model.restore(model.find(text, most_tokens=len(text)), lambda: done.append(1))
    disk.run()
    assert done == [1]
    match = model.find(text, most_tokens=len(text))
    make = hybrid if model.has_states else growing
    assert contents(model.fetch(match)) == contents(cache_of(make, text[: match.num_tokens]))
    return match.num_tokens


def test_only_what_is_missing_is_read_and_once() -> None:
    disk = MemoryDisk()
    model = restart(disk)
    model.keep(TEXT, cache_of(growing, TEXT))
    other = [*TEXT[:20], 90, 91]
    model.keep(other, cache_of(growing, other))
    assert len(disk.pieces["model"]) == 6
    model = restart(disk)
    match = model.find(TEXT, most_tokens=16)
    assert (match.num_tokens, match.num_tokens_with_disk) == (0, 16)
    done: list[int] = []
    for _ in range(3):
        model.restore(match, lambda: done.append(1))
    disk.run()
    assert done == [1, 1, 1]
    assert disk.num_read == 2
    assert restore_all(disk, model, other) == 22
    assert disk.num_read == 4
    assert model.find(TEXT, most_tokens=40).num_tokens == 24
    assert model.stats().num_restores == 4
    assert set(disk.touched) == set(list(disk.pieces["model"])[:3]) | {
        list(disk.pieces["model"])[5]
    }


def flipped(piece: HostPiece) -> HostPiece:
    head = piece.head
    arrays = {
        name: HostArray(a.dtype, (*a.shape[:2], 1, *a.shape[3:]), a.data[: a.num_bytes // 8])
        for name, a in piece.arrays.items()
    }
    return HostPiece(head, arrays, piece.notes)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda pieces, key: pieces.pop(key), id="gone"),
        pytest.param(lambda pieces, key: pieces.update({key: flipped(pieces[key])}), id="shape"),
        pytest.param(
            lambda pieces, key: pieces.update({key: pieces[next(iter(pieces))]}), id="another"
        ),
        pytest.param(
            lambda pieces, key: pieces.update(
                {key: HostPiece(pieces[key].head, {"0.x": HostArray("F8", (), memoryview(b""))})}
            ),
            id="dtype",
        ),
    ],
)
def test_a_piece_that_is_gone_or_no_good_costs_what_hangs_on_it(
    spoil: Callable[[dict[str, HostPiece], str], object],
) -> None:
    disk = MemoryDisk()
    model = restart(disk)
    model.keep(TEXT, cache_of(growing, TEXT))
    model = restart(disk)
    spoil(disk.pieces["model"], list(disk.pieces["model"])[2])
    assert restore_all(disk, model, TEXT) == 16
    # It is not asked for again, and is stored anew.
    assert model.find(TEXT, most_tokens=40).num_on_disk == 0
    model.keep(TEXT, cache_of(growing, TEXT))
    assert model.find(TEXT, most_tokens=40).num_tokens == 40


@pytest.mark.parametrize(
    "notes", [{}, {"states": [1, 2]}, {"states": [{"array": "none"}]}], ids=str
)
def test_a_checkpoint_that_says_nothing_is_no_good(notes: dict[str, object]) -> None:
    disk = MemoryDisk()
    model = restart(disk, hybrid)
    model.keep(TEXT, cache_of(hybrid, TEXT))
    model = restart(disk, hybrid)
    pieces = disk.pieces["model"]
    key, piece = next((k, p) for k, p in pieces.items() if p.head.kind == "checkpoint")
    pieces[key] = HostPiece(piece.head, piece.arrays, notes)
    assert restore_all(disk, model, TEXT) == 0


def test_a_text_that_parts_within_a_block_on_disk_keeps_its_part_of_it() -> None:
    """The rest of the block isn't known to it; later it can still be read."""
    disk = MemoryDisk()
    model = restart(disk)
    model.keep(TEXT, cache_of(growing, TEXT))
    model = restart(disk)
    other = [*TEXT[:21], 90, 91]
    model.keep(other, cache_of(growing, other))
    assert model.stats().num_tokens == 23
    assert model.find(other, most_tokens=23).num_tokens == 23
    match = model.find(TEXT, most_tokens=40)
    assert (match.num_tokens, match.num_tokens_with_disk) == (21, 40)
    assert restore_all(disk, model, TEXT) == 40
    assert restore_all(disk, model, other) == 23
    assert model.stats().num_tokens == 42


def test_a_block_that_has_grown_is_found_in_its_longer_form() -> None:
    disk = MemoryDisk()
    model = restart(disk)
    for length in (10, 13, 15):
        model.keep(TEXT[:length], cache_of(growing, TEXT[:length]))
    assert len(disk.pieces["model"]) == 4  # two of them are of no more use
    assert restart(disk).find(TEXT, most_tokens=40).num_tokens_with_disk == 15


def test_what_the_disk_refuses_is_offered_again_with_its_parents() -> None:
    disk = MemoryDisk()
    model = restart(disk)
    disk.is_full = True
    model.keep(TEXT[:30], cache_of(growing, TEXT[:30]))
    assert not disk.pieces["model"]
    disk.is_full = False
    model.keep(TEXT, cache_of(growing, TEXT))
    model = restart(disk)
    assert restore_all(disk, model, TEXT) == 40


def test_a_store_with_a_disk_needs_a_way_to_its_thread() -> None:
    with pytest.raises(TypeError, match="needs `post`"):
        PrefixStore(1, disk=MemoryDisk())


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_closed_model_takes_nothing_that_comes_late(make: Callable[[], list[object]]) -> None:
    disk = MemoryDisk()
    restart(disk, make).keep(TEXT, cache_of(make, TEXT))
    store = PrefixStore(1 << 20, disk=disk, post=disk.post, block_tokens=8)
    model = store.open("model", make)
    disk.run()
    match, done = model.find(TEXT, most_tokens=40), list[int]()
    assert match.num_on_disk == 40
    model.restore(match, lambda: done.append(1))
    store.close(model)
    disk.run()
    assert done == [1]
    assert store.num_bytes == 0
    model.keep(TEXT, cache_of(make, TEXT))
    assert store.num_bytes == 0
    assert model.find(TEXT, most_tokens=40).num_tokens_with_disk == 0
