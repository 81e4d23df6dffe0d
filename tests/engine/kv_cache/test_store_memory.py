"""What is accounted is what MLX holds, budgets hold, and the least valuable goes first."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.engine.batch_cache import extract_cache, merge_caches
from maxi_mlx.kv_cache.model_store import ModelStore
from maxi_mlx.kv_cache.store import PrefixStore
from maxi_mlx.kv_cache.worth import MAX_CHECKPOINTS
from tests.engine.conftest import LoadTiny
from tests.engine.kv_cache.texts import MAKERS, cache_of, contents, growing, hybrid, recurrent

TOKEN_BYTES = 2 * 2 * 2 * 4 * 4  # of `growing`: two layers of keys and values, two heads of four


@pytest.fixture(autouse=True)
def steady_memory() -> Iterator[None]:
    """What earlier tests left in circles would be freed under way."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def prompt_of(length: int, seed: int) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(10, 400, length)]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gemma3", "lfm2", "mamba2"])
def test_what_is_kept_of_a_batch_does_not_hold_the_batch(family: str, load_tiny: LoadTiny) -> None:
    model = load_tiny(family)
    texts = [prompt_of(300, seed) for seed in range(8)]
    caches = [model.new_cache() for _ in texts]
    batched = merge_caches(caches)
    model.model(mx.array(texts), cache=batched)
    mx.eval([entry.state for entry in batched])
    store = PrefixStore(1 << 30, block_tokens=128)
    stored = store.open("a model", model.new_cache)
    mx.clear_cache()  # a buffer that is used again may be larger than what is in it
    before = mx.get_active_memory()
    stored.keep(texts[3], extract_cache(model.model, batched, 3))
    taken = mx.get_active_memory() - before
    assert store.num_bytes <= taken <= 1.02 * store.num_bytes
    del caches, batched
    # The batch goes, for it is not held by what was kept of it.
    assert mx.get_active_memory() <= before - 6 * store.num_bytes
    kept_bytes = store.num_bytes
    full = mx.get_active_memory()
    store.close(stored)
    assert mx.get_active_memory() <= full - kept_bytes
    assert store.num_bytes == 0


def test_fetching_takes_one_copy_with_room_to_grow() -> None:
    store = PrefixStore(1 << 30)
    model = store.open("model", growing)
    text = prompt_of(2000, 1)
    model.keep(text, cache_of(growing, text))
    match = model.find(text, most_tokens=1990)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    cache = model.fetch(match)
    copy_bytes = 2048 * TOKEN_BYTES
    assert mx.get_active_memory() - before <= copy_bytes + 20_000
    assert mx.get_peak_memory() - before <= 1.1 * copy_bytes
    assert cache[0].keys.shape[2] == 2048
    assert model.fetch(match, room_tokens=58)[0].keys.shape[2] == 2048
    assert model.fetch(match, room_tokens=59)[0].keys.shape[2] == 2304
    exact = model.find(text[:256], most_tokens=256)
    assert model.fetch(exact)[0].keys.shape[2] == 512


def test_many_conversations_over_one_system_prompt_store_it_once() -> None:
    store = PrefixStore(1 << 30)
    model = store.open("model", growing)
    system = prompt_of(2000, 1)
    texts = [[*system, *prompt_of(20, seed)] for seed in range(2, 18)]
    for text in texts:
        model.keep(text, cache_of(growing, text))
    stats = model.stats()
    ideal = (2000 + 16 * 20) * TOKEN_BYTES
    # Where answers begin alike by chance, even that is shared.
    assert 0.97 * ideal <= stats.num_bytes <= ideal
    assert stats.num_conversations == 16
    assert stats.shared_bytes == pytest.approx(15 * 2000 * TOKEN_BYTES, rel=0.01)
    for text in texts:
        cache = model.fetch(model.find(text, most_tokens=2020))
        assert contents(cache) == contents(cache_of(growing, text))


def open_growing(num_tokens: int) -> tuple[PrefixStore, ModelStore]:
    store = PrefixStore(num_tokens * TOKEN_BYTES, block_tokens=10)
    return store, store.open("model", growing)


def test_what_was_not_used_for_longest_goes_first() -> None:
    _, model = open_growing(40)
    texts = [prompt_of(10, seed) for seed in range(6)]
    for text in texts[:4]:
        model.keep(text, cache_of(growing, text))
    model.fetch(model.find(texts[0], most_tokens=10))
    for text in texts[4:]:
        model.keep(text, cache_of(growing, text))
    assert [model.find(t, most_tokens=10).num_tokens for t in texts] == [10, 0, 0, 10, 10, 10]
    assert model.stats().num_evictions == 2


def test_an_old_favourite_goes_some_time() -> None:
    _, model = open_growing(40)
    favourite = prompt_of(10, 0)
    model.keep(favourite, cache_of(growing, favourite))
    for _ in range(1000):
        model.fetch(model.find(favourite, most_tokens=10))
    for seed in range(1, 400):
        text = prompt_of(10, seed)
        model.keep(text, cache_of(growing, text))
        model.fetch(model.find(text, most_tokens=10))
    assert model.find(favourite, most_tokens=10).num_tokens == 0


def test_a_texts_end_goes_before_its_beginning() -> None:
    store, model = open_growing(100)
    text = prompt_of(95, 1)
    model.keep(text, cache_of(growing, text))
    for num_blocks in range(9, -1, -1):
        store.shrink_to(num_blocks * 10 * TOKEN_BYTES)
        assert model.find(text, most_tokens=95).num_tokens == num_blocks * 10
    assert store.num_bytes == 0


def test_of_a_text_larger_than_the_budget_the_beginning_is_kept() -> None:
    store, model = open_growing(35)
    text = prompt_of(95, 1)
    for _ in range(3):
        model.keep(text, cache_of(growing, text))
        assert model.find(text, most_tokens=95).num_tokens == 30
        assert store.num_bytes == 30 * TOKEN_BYTES


def test_no_more_is_kept_than_memory_is_left() -> None:
    left_tokens = 25
    store = PrefixStore(1 << 20, left_bytes=lambda: left_tokens * TOKEN_BYTES, block_tokens=10)
    model = store.open("model", growing)
    first, second = prompt_of(95, 1), prompt_of(95, 2)
    model.keep(first, cache_of(growing, first))
    assert model.find(first, most_tokens=95).num_tokens == 20
    left_tokens = 0
    model.keep(second, cache_of(growing, second))
    assert model.find(second, most_tokens=95).num_tokens == 20, "in place of the first"
    assert store.num_bytes == 20 * TOKEN_BYTES
    left_tokens = -10
    model.keep(first, cache_of(growing, first))
    assert store.num_bytes == 10 * TOKEN_BYTES
    left_tokens = -30  # what is too much goes when the device thread says so
    model.keep(second, cache_of(growing, second))
    assert store.num_bytes == 10 * TOKEN_BYTES


def test_a_budget_may_change() -> None:
    store, model = open_growing(100)
    text = prompt_of(95, 1)
    model.keep(text, cache_of(growing, text))
    store.budget_bytes = 50 * TOKEN_BYTES
    assert store.num_bytes == 50 * TOKEN_BYTES
    store.budget_bytes = 0
    model.keep(text, cache_of(growing, text))
    assert store.num_bytes == 0
    store.budget_bytes = 100 * TOKEN_BYTES
    model.keep(text, cache_of(growing, text))
    assert model.find(text, most_tokens=95).num_tokens == 95


def test_models_share_one_budget_and_dear_tokens_stay_longer() -> None:
    store = PrefixStore(40 * TOKEN_BYTES, block_tokens=10)
    cheap = store.open("cheap", growing, token_cost_s=0.001)
    dear = store.open("dear", growing, token_cost_s=0.01)
    texts = [prompt_of(10, seed) for seed in range(6)]
    for text in texts[:2]:
        dear.keep(text, cache_of(growing, text))
    for text in texts:
        cheap.keep(text, cache_of(growing, text))
    assert [dear.find(t, most_tokens=10).num_tokens for t in texts[:2]] == [10, 10]
    assert store.stats().num_bytes == store.num_bytes == 40 * TOKEN_BYTES
    assert store.stats().num_evictions == cheap.stats().num_evictions == 4
    store.close(cheap)
    store.close(cheap)
    assert store.num_bytes == 20 * TOKEN_BYTES
    assert store.stats().num_evictions == 4
    assert cheap.find(texts[5], most_tokens=10).num_tokens == 0


def test_what_is_evicted_after_it_was_found_can_still_be_fetched() -> None:
    store, model = open_growing(40)
    text = prompt_of(33, 1)
    model.keep(text, cache_of(growing, text))
    match = model.find(text, most_tokens=33)
    store.shrink_to(0)
    assert contents(model.fetch(match)) == contents(cache_of(growing, text))


def test_a_state_that_does_not_fit_costs_nobody_anything() -> None:
    store = PrefixStore(1500, block_tokens=10)
    model = store.open("model", hybrid)
    short, long = prompt_of(10, 1), prompt_of(90, 2)
    model.keep(short, cache_of(hybrid, short))
    model.keep(long, cache_of(hybrid, long))
    assert model.find(long, most_tokens=90).num_tokens == 0
    assert model.find(short, most_tokens=10).num_tokens == 10
    assert model.stats().num_evictions == 0


@pytest.mark.slow
@pytest.mark.parametrize("make", [hybrid, recurrent])
def test_of_many_checkpoints_first_and_newest_stay(make: object) -> None:
    store = PrefixStore(1 << 20, block_tokens=10)
    model = store.open("model", make)
    text = prompt_of(200, 1)
    for length in range(8, 200, 8):
        model.keep(text[:length], cache_of(make, text[:length]))
    places = [
        place for place in range(1, 201) if model.find(text, most_tokens=place).num_tokens == place
    ]
    assert len(places) == MAX_CHECKPOINTS
    assert places[0] == 8
    assert places[-3:] == [176, 184, 192]
    gaps = np.diff(places)
    assert list(gaps) == sorted(gaps, reverse=True), "the nearer the end, the closer"


def test_blocks_that_lead_to_no_checkpoint_go_with_it() -> None:
    store = PrefixStore(1 << 20, block_tokens=10)
    model = store.open("model", hybrid)
    text = prompt_of(60, 1)
    for length in (15, 55):
        model.keep(text[:length], cache_of(hybrid, text[:length]))
    model.fetch(model.find(text, most_tokens=20))
    store.shrink_to(store.num_bytes - 1)
    assert model.find(text, most_tokens=60).num_tokens == 15
    # Of 40 tokens' keys and values none are left.
    assert model.stats().num_tokens == 15


def test_where_texts_part_is_told_though_no_checkpoint_is_there() -> None:
    model = PrefixStore(1 << 20, block_tokens=10).open("model", hybrid)
    text = prompt_of(60, 1)
    model.keep(text, cache_of(hybrid, text))
    match = model.find([*text[:33], 7, 7], most_tokens=34)
    assert (match.num_tokens, match.num_shared) == (0, 33)


def test_hits_are_counted_by_how_they_end() -> None:
    minutes = [0.0]
    store = PrefixStore(1 << 20, block_tokens=10, clock=lambda: minutes[0] * 60)
    model = store.open("model", growing)
    text = prompt_of(30, 1)
    assert model.stats().hit_rate is None

    def ask(token_ids: list[int]) -> None:
        model.fetch(model.find(token_ids, most_tokens=len(token_ids) - 1))

    ask(text)  # a miss
    model.keep(text, cache_of(growing, text))
    ask([*text, 5, 6])  # the next turn
    ask(text)  # the same again
    ask([*text[:12], 5, 6])  # another end
    stats = store.stats()
    assert (stats.num_misses, stats.num_hits, stats.num_partial_hits) == (1, 2, 1)
    assert stats.num_tokens_saved == 30 + 29 + 12
    assert stats.hit_rate == 0.75
    minutes[0] = 59.0
    ask([5, 6])
    assert store.stats().hit_rate == 0.6
    minutes[0] = 60.5
    assert store.stats().hit_rate == model.stats().hit_rate == 0.0
    minutes[0] = 300.0
    assert store.stats().hit_rate is None


def test_keeping_what_is_there_copies_nothing() -> None:
    for make in MAKERS.values():
        store = PrefixStore(1 << 20, block_tokens=10)
        model = store.open("model", make)
        text = prompt_of(33, 1)
        cache = cache_of(make, text)
        model.keep(text, cache)
        before = mx.get_active_memory()
        pieces = {id(node.arrays) for node in model._inventory.nodes.values()}
        for _ in range(5):
            model.keep(text, cache)
        assert {id(node.arrays) for node in model._inventory.nodes.values()} == pieces
        assert mx.get_active_memory() == before


def test_what_cannot_be_computed_leaves_the_store_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = PrefixStore(1 << 20, block_tokens=10)
    model = store.open("model", growing)
    text = prompt_of(55, 1)
    model.keep(text[:25], cache_of(growing, text[:25]))
    cache = cache_of(growing, text)
    before = model.stats()

    def no_memory(*arrays: object) -> None:
        raise RuntimeError("[malloc] no memory")

    with monkeypatch.context() as patch:
        patch.setattr(mx, "eval", no_memory)
        with pytest.raises(RuntimeError, match="no memory"):
            model.keep(text, cache)
    after = model.stats()
    # But for the text's end, which was to become a longer block.
    assert after.num_tokens == 20
    assert store.num_bytes == 20 * TOKEN_BYTES
    assert before.num_tokens == 25
    model.keep(text, cache)
    assert contents(model.fetch(model.find(text, most_tokens=55))) == contents(cache)
