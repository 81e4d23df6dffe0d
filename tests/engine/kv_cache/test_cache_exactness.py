"""Tokens with a hit equal tokens without, on every kind of cache and at every cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as cached
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from maxi_mlx.engine.batch_cache import extract_cache, merge_caches
from maxi_mlx.engine.cache_form import CacheForm
from maxi_mlx.engine.language_model import LanguageModel, load_language_model
from maxi_mlx.kv_cache.model_store import ModelStore
from maxi_mlx.kv_cache.store import PrefixStore
from tests.engine.conftest import LoadTiny, entry_for
from tests.models import build_model

BLOCK = 8
GROWING = ("llama", "llama-4bit", "qwen3")
WITH_STATES = ("gemma3", "lfm2", "qwen3_5", "mamba2", "llama4")
FORMS = {
    "llama, 8 bits": CacheForm(kv_bits=8),
    "llama, window": CacheForm(max_kv_size=24),
}


@pytest.fixture(scope="module")
def load(
    load_tiny: LoadTiny, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], LanguageModel]:
    @cached
    def of(name: str) -> LanguageModel:
        if name not in FORMS:
            return load_tiny(name)
        # Heads wide enough to be quantised.
        folder = build_model(tmp_path_factory.mktemp("forms") / "wide", "llama", head_dim=32)
        return load_language_model(entry_for(folder), FORMS[name])

    return of


def prompt_of(length: int, seed: int = 1) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(10, 400, length)]


def answer(
    model: LanguageModel, prompt: list[int], cache: list[Any], *, num_cached: int = 0
) -> list[int]:
    tokens, inputs = [], prompt[num_cached:]
    for _ in range(6):
        logits = model.model(mx.array([inputs]), cache=cache)
        inputs = [int(mx.argmax(logits[0, -1]).item())]
        tokens += inputs
    return tokens


def expected_answer(model: LanguageModel, text: list[int], *stops: int) -> list[int]:
    """Without a store. A window over layers that weren't trained for one sees other tokens when a
    prompt is read in other slices: so it is read in the same."""
    cache, place = model.new_cache(), 0
    for stop in stops if getattr(cache[0], "keep", 0) else ():
        model.model(mx.array([text[place:stop]]), cache=cache)
        place = stop
    return answer(model, text, cache, num_cached=place)


def open_store(model: LanguageModel, *, budget_bytes: int = 1 << 30) -> ModelStore:
    store = PrefixStore(budget_bytes, block_tokens=BLOCK)
    return store.open("a model", model.new_cache)


def keep(store: ModelStore, model: LanguageModel, text: list[int], *stops: int) -> None:
    """Reads a text, and keeps what there is at some places."""
    cache, place = model.new_cache(), 0
    for stop in stops:
        model.model(mx.array([text[place:stop]]), cache=cache)
        store.keep(text[:stop], cache)
        place = stop


@pytest.mark.parametrize("name", [*GROWING, "llama, 8 bits"])
def test_a_cache_that_grows_is_cut_at_any_token(
    name: str, load: Callable[[str], LanguageModel]
) -> None:
    model = load(name)
    store = open_store(model)
    text = prompt_of(30)
    keep(store, model, text, 27)
    expected = answer(model, text, model.new_cache())
    for most_tokens in range(30):
        match = store.find(text, most_tokens=most_tokens)
        assert match.num_tokens == min(most_tokens, 27)
        got = answer(model, text, store.fetch(match), num_cached=match.num_tokens)
        assert got == expected, most_tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WITH_STATES, "llama, window"])
@pytest.mark.parametrize("stops", [(1,), (7, 8, 9), (16, 24), (3, 30, 45)], ids=str)
def test_a_state_is_found_where_it_was_kept(
    name: str, stops: tuple[int, ...], load: Callable[[str], LanguageModel]
) -> None:
    model = load(name)
    store = open_store(model)
    assert store.has_states
    text = prompt_of(48)
    keep(store, model, text, *stops)
    for most_tokens in {0, 1, *stops, *(stop - 1 for stop in stops), 47}:
        passed = [stop for stop in stops if stop <= most_tokens]
        expected = expected_answer(model, text, *passed)
        match = store.find(text, most_tokens=most_tokens)
        assert match.num_tokens == max(passed, default=0)
        got = answer(model, text, store.fetch(match), num_cached=match.num_tokens)
        assert got == expected, most_tokens


@pytest.mark.parametrize("name", [*GROWING, *WITH_STATES, *FORMS])
def test_texts_that_part_share_what_comes_before(
    name: str, load: Callable[[str], LanguageModel]
) -> None:
    model = load(name)
    store = open_store(model)
    system = prompt_of(19)
    texts = [[*system, *prompt_of(14, seed)] for seed in (2, 3, 4)]
    for text in texts:
        keep(store, model, text, 19, 30)
    for text in texts:
        match = store.find(text, most_tokens=len(text) - 1)
        assert match.num_tokens == 30
        expected = expected_answer(model, text, 19, 30)
        assert answer(model, text, store.fetch(match), num_cached=30) == expected
    # The system prompt is there once: 19 tokens and three times 11.
    assert store.stats().num_tokens == 19 + 3 * 11
    assert store.stats().num_conversations == 3


@pytest.mark.parametrize("name", [*GROWING, *WITH_STATES])
def test_a_fetched_cache_is_nobody_elses(name: str, load: Callable[[str], LanguageModel]) -> None:
    """Running it, or the one that was kept, changes nothing that is stored."""
    model = load(name)
    store = open_store(model)
    text = prompt_of(33)
    cache = model.new_cache()
    model.model(mx.array([text[:32]]), cache=cache)
    store.keep(text[:32], cache)
    expected = answer(model, text, cache, num_cached=32)
    for _ in range(3):
        match = store.find(text, most_tokens=32)
        first, second = store.fetch(match), store.fetch(match)
        assert answer(model, [*text[:32], 5], first, num_cached=32) is not None
        assert answer(model, text, second, num_cached=32) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GROWING, *WITH_STATES[:-1]])
def test_a_row_of_a_batch_can_be_kept(name: str, load: Callable[[str], LanguageModel]) -> None:
    model = load(name)
    store = open_store(model)
    texts = [prompt_of(40, seed) for seed in range(3)]
    caches = []
    for text in texts:
        caches.append(model.new_cache())
        model.model(mx.array([text[:20]]), cache=caches[-1])
    batched = merge_caches(caches)
    model.model(mx.array([text[20:39] for text in texts]), cache=batched)
    for i, text in enumerate(texts):
        store.keep(text[:39], extract_cache(model.model, batched, i))
    for text in texts:
        match = store.find(text, most_tokens=39)
        assert match.num_tokens == 39
        expected = answer(model, text, model.new_cache())
        assert answer(model, text, store.fetch(match), num_cached=39) == expected


def test_a_window_is_kept_without_what_it_has_left_behind(
    load: Callable[[str], LanguageModel],
) -> None:
    """After a long slice of a prompt mlx-lm's window still holds all of the slice."""
    model = load("gemma3")
    store = open_store(model)
    text = prompt_of(300)
    keep(store, model, text, 300)
    cache = model.new_cache()
    model.model(mx.array([text]), cache=cache)
    growing = sum(e.keys[..., :300, :].nbytes * 2 for e in cache if not hasattr(e, "max_size"))
    windows = [entry for entry in cache if hasattr(entry, "max_size")]
    window_bytes = sum(2 * 16 * e.keys.nbytes // e.keys.shape[2] for e in windows)
    assert store.stats().num_bytes == growing + window_bytes
    assert sum(e.nbytes for e in windows) > 15 * window_bytes


def test_a_cache_of_other_tokens_is_refused(load: Callable[[str], LanguageModel]) -> None:
    model = load("llama")
    store = open_store(model)
    text = prompt_of(20)
    cache = model.new_cache()
    model.model(mx.array([text]), cache=cache)
    with pytest.raises(ValueError, match="holds 20 tokens, not 19"):
        store.keep(text[:19], cache)
    rows = model.new_cache()
    model.model(mx.array([text, text]), cache=rows)
    with pytest.raises(ValueError, match="one of 2 rows"):
        store.keep(text, rows)
    with pytest.raises(ValueError, match="has 1 layers"):
        store.keep(text, cache[:1])
    assert store.stats().num_pieces == 0


def test_nothing_of_no_tokens(load: Callable[[str], LanguageModel]) -> None:
    model = load("lfm2")
    store = open_store(model)
    store.keep([], model.new_cache())
    match = store.find([5], most_tokens=0)
    assert match.num_tokens == match.num_tokens_with_disk == 0
    assert all(entry.empty() for entry in store.fetch(match))
    assert store.stats().num_misses == 0
