"""Rows together give what each gives alone, on every kind of cache that mlx-lm has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import KVCache, make_prompt_cache

from maxi_mlx.engine import batch_cache, logits_edits
from maxi_mlx.engine.batch import DecodeBatch, Newcomer, likeliest
from maxi_mlx.engine.batch_cache import CachesLost, can_batch, evaluate
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.row import Row, RowSampling, draw_key
from tests.engine.conftest import LoadTiny

FAMILIES = ("llama", "llama-4bit", "qwen3", "gemma3", "lfm2", "qwen3_5", "mamba2")
GREEDY = RowSampling(
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    xtc_probability=0.0,
    xtc_threshold=0.1,
    xtc_spared=(),
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    logit_bias=(),
    seed=1,
)
DRAWN = replace(GREEDY, temperature=1.0)


def make_row(sampling: RowSampling = GREEDY, **changes: Any) -> Row:
    settings: dict[str, Any] = {
        "mailbox": None,
        "request_id": "req-test",
        "choice": 0,
        "token_ids": [],
        "num_prompt_tokens": 0,
        "sampling": sampling,
        "key": draw_key(sampling.seed, 0),
        "max_tokens": 1000,
        "end_ids": frozenset(),
        "top_logprobs": None,
    }
    return Row(**settings | changes)


class Bench:
    """Drives a batch as the scheduler does, and keeps what every row got."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.batch = DecodeBatch(model.model)
        self.tokens: dict[Row, list[int]] = {}
        self.scores: dict[Row, list[Any]] = {}

    def join(self, row: Row, prompt: list[int], *, answer: Sequence[int] = ()) -> Row:
        """``answer``: what the row has said already, before an interruption."""
        text = [*prompt, *answer]
        cache = make_prompt_cache(self.model.model)
        if len(text) > 1:
            self.model.model(mx.array(text[:-1])[None], cache=cache)
        row.token_ids, row.num_prompt_tokens = text, len(prompt)
        self.batch.join([Newcomer(row, cache)], vocabulary_size=self.model.vocabulary_size)
        self.tokens[row], self.scores[row] = list(answer), []
        return row

    def steps(self, count: int) -> None:
        for _ in range(count):
            for token in self.batch.step():
                token.row.token_ids.append(token.token_id)
                self.tokens[token.row].append(token.token_id)
                self.scores[token.row].append(token.scores)


def prompt_of(length: int, seed: int) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(10, 400, length)]


def alone(model: LanguageModel, prompt: list[int], count: int) -> list[int]:
    """mlx-lm's own loop, greedy."""
    step = generate_step(mx.array(prompt), model.model, max_tokens=count)
    return [int(token) for token, _ in step]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_joining_and_leaving_rows_equal_each_row_alone(family: str, load_tiny: LoadTiny) -> None:
    model = load_tiny(family)
    assert model.can_batch
    bench = Bench(model)
    prompts = [prompt_of(n, seed) for seed, n in enumerate((1, 40, 7, 1))]
    rows = [bench.join(make_row(), prompts[0])]
    bench.steps(5)
    rows.append(bench.join(make_row(), prompts[1]))
    bench.steps(7)
    rows.append(bench.join(make_row(), prompts[2]))
    rows.append(bench.join(make_row(), prompts[3]))
    bench.steps(6)
    bench.batch.leave({rows[1]})
    bench.steps(4)
    bench.batch.leave({rows[0], rows[3]})  # one left: back to a plain cache
    bench.steps(25)
    for row, prompt in zip(rows, prompts, strict=True):
        got = bench.tokens[row]
        assert len(got) >= 9
        assert got == alone(model, prompt, len(got)), family


def test_a_model_with_chunked_caches_is_run_row_by_row(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama4")
    assert not model.can_batch
    assert not can_batch(make_prompt_cache(model.model))
    bench = Bench(model)
    prompt = prompt_of(30, 3)
    row = bench.join(make_row(), prompt)
    bench.steps(20)
    assert bench.tokens[row] == alone(model, prompt, 19)


@pytest.mark.parametrize("family", ["llama", "gemma3", "lfm2"])
def test_a_seeded_row_draws_the_same_alone_and_among_neighbours(
    family: str, load_tiny: LoadTiny
) -> None:
    model = load_tiny(family)
    prompt = prompt_of(12, 5)
    single = Bench(model)
    first = single.join(make_row(replace(DRAWN, seed=7)), prompt)
    single.steps(20)
    together = Bench(model)
    for i in range(3):
        together.join(make_row(replace(DRAWN, seed=100 + i)), prompt_of(5 + 9 * i, i))
    together.steps(3)
    second = together.join(make_row(replace(DRAWN, seed=7)), prompt)
    together.steps(9)
    together.batch.leave({together.batch.rows[0]})
    together.steps(11)
    assert together.tokens[second] == single.tokens[first]
    other = Bench(model)
    third = other.join(make_row(replace(DRAWN, seed=8)), prompt)
    other.steps(20)
    assert other.tokens[third] != single.tokens[first]


def test_logprobs_agree_with_a_softmax_of_the_logits(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    prompt = prompt_of(9, 1)
    bench = Bench(model)
    row = bench.join(make_row(top_logprobs=4), prompt)
    quiet = bench.join(make_row(), prompt_of(3, 2))
    bench.steps(6)
    ids = list(prompt)
    for token_id, scores in zip(bench.tokens[row], bench.scores[row], strict=True):
        logits = np.array(model.model(mx.array(ids)[None])[0, -1], dtype=np.float64)
        expected = logits - np.log(np.sum(np.exp(logits - logits.max()))) - logits.max()
        assert scores.logprob == pytest.approx(expected[token_id], abs=1e-4)
        best = np.argsort(-expected)[:4]
        assert list(scores.top_ids) == best.tolist()
        assert scores.top_logprobs == pytest.approx(expected[best], abs=1e-4)
        ids.append(token_id)
    assert bench.scores[quiet] == [None] * 5


def test_a_row_with_penalties_leaves_its_neighbours_alone(load_tiny: LoadTiny) -> None:
    model = load_tiny("qwen3")
    prompts = [prompt_of(6, 1), prompt_of(11, 2)]
    bench = Bench(model)
    strict = bench.join(make_row(replace(GREEDY, frequency_penalty=2.0)), prompts[0])
    plain = bench.join(make_row(), prompts[1])
    bench.steps(30)
    assert bench.tokens[plain] == alone(model, prompts[1], 29)
    # Two points off a token's logit each time it was used: it soon gives way to others.
    assert len(set(bench.tokens[strict])) > len(set(alone(model, prompts[0], 29)))


def test_penalties_follow_openais_definition(load_tiny: LoadTiny) -> None:
    """Against plain numpy: presence and frequency over the answer, repetition over both."""
    model = load_tiny("llama")
    params = replace(
        GREEDY,
        presence_penalty=0.4,
        frequency_penalty=0.3,
        repetition_penalty=1.2,
        logit_bias=((17, 1.5), (300, -4.0)),
    )
    prompt = prompt_of(8, 4)
    bench = Bench(model)
    row = bench.join(make_row(params), prompt)
    bench.join(make_row(), prompt_of(20, 9))
    bench.steps(25)
    answer: list[int] = []
    for token_id in bench.tokens[row]:
        logits = np.array(model.model(mx.array(prompt + answer)[None])[0, -1], dtype=np.float64)
        seen = np.isin(np.arange(len(logits)), prompt + answer)
        logits = np.where(seen, np.where(logits > 0, logits / 1.2, logits * 1.2), logits)
        counts = np.bincount(answer, minlength=len(logits))
        logits = logits - 0.4 * (counts > 0) - 0.3 * counts
        logits[17] += 1.5
        logits[300] -= 4.0
        assert token_id == int(np.argmax(logits))
        answer.append(token_id)


def test_leaving_rows_give_their_memory_back(load_tiny: LoadTiny) -> None:
    """What MLX really holds, not what the caches say: a lazy slice would pin the whole batch."""
    bench = Bench(load_tiny("llama"))
    before = mx.get_active_memory()
    rows = [bench.join(make_row(), prompt_of(200, i)) for i in range(8)]
    bench.steps(2)
    bench.batch.settle()
    full = mx.get_active_memory() - before
    bench.batch.leave(set(rows[2:]))
    assert mx.get_active_memory() - before <= full / 3
    bench.batch.leave({rows[0]})
    assert mx.get_active_memory() - before <= full / 6
    bench.batch.leave({rows[1]})
    assert bench.batch.cache_bytes == 0
    assert mx.get_active_memory() - before <= full / 50


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_of_one_token_may_leave_before_its_first_step(
    family: str, load_tiny: LoadTiny
) -> None:
    """Its cache is still empty then, and can't be cut."""
    model = load_tiny(family)
    bench = Bench(model)
    for count in (2, 3):
        rows = [bench.join(make_row(), [30 + i]) for i in range(count)]
        bench.batch.leave({rows[0]})
        bench.steps(9)
        for i, row in enumerate(rows[1:], start=1):
            assert bench.tokens[row] == alone(model, [30 + i], 8)
        bench.batch.leave(set(rows))


def test_a_join_that_fails_leaves_the_batch_as_it_was(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    bench = Bench(model)
    prompts = [prompt_of(5, 1), prompt_of(9, 2)]
    rows = [bench.join(make_row(), prompt) for prompt in prompts]
    bench.steps(3)
    cache = make_prompt_cache(model.model)
    model.model(mx.array([prompt_of(4, 3)]), cache=cache)
    cache[1].keys = None  # the second layer's can't be merged; the first one's can
    bad = make_row(token_ids=prompt_of(5, 3), num_prompt_tokens=5)
    with pytest.raises((TypeError, AttributeError, ValueError)):
        bench.batch.join(
            [Newcomer(bad, cache), Newcomer(make_row(token_ids=[3]), [None])],
            vocabulary_size=model.vocabulary_size,
        )
    bench.steps(10)
    for row, prompt in zip(rows, prompts, strict=True):
        assert bench.tokens[row] == alone(model, prompt, len(bench.tokens[row]))


NUM_LAYERS = 16


def read_cache(num_tokens: int) -> list[KVCache]:
    """Of a model of many layers: what a row has read."""
    cache = [KVCache() for _ in range(NUM_LAYERS)]
    for layer, entry in enumerate(cache):
        entry.update_and_fetch(*(mx.full((1, 2, num_tokens, 64), layer + k) for k in (0.0, 0.5)))
    evaluate(cache)
    return cache


@pytest.mark.parametrize("num_rows", [1, 3])
def test_joining_has_only_some_layers_in_memory_twice(
    num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [make_row(token_ids=[1] * 257) for _ in range(num_rows)]
    batch = DecodeBatch(None)
    batch.join([Newcomer(row, read_cache(256)) for row in first], vocabulary_size=100)
    second = [Newcomer(make_row(token_ids=[1] * 513), read_cache(512)) for _ in range(2)]
    layer_bytes = (num_rows + 2) * 512 * 2 * 2 * 64 * 4
    monkeypatch.setattr(batch_cache, "COPY_BYTES", layer_bytes)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    batch.join(second, vocabulary_size=100)
    # What is new of a group, merged and joined; and what padding adds to layers that are done.
    padding_bytes = NUM_LAYERS * layer_bytes * num_rows // (num_rows + 2) // 2
    assert mx.get_peak_memory() - before <= 3 * layer_bytes + padding_bytes
    assert batch.cache_bytes == NUM_LAYERS * layer_bytes
    for layer, entry in enumerate(batch._cache):
        assert entry.keys.shape == (num_rows + 2, 2, 512, 64)
        assert mx.array_equal(entry.left_padding, mx.array([256] * num_rows + [0, 0]))
        assert mx.all(entry.values[:, :, 256:] == layer + 0.5)
    assert all(cache == [None] * NUM_LAYERS for cache in (newcomer.cache for newcomer in second))
    batch.leave(set(first))
    assert batch.cache_bytes == 2 * NUM_LAYERS * 512 * 2 * 2 * 64 * 4


@pytest.mark.parametrize("num_rows", [0, 1, 3])
def test_a_join_that_fails_half_way_says_so(num_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = DecodeBatch(None)
    rows = [make_row(token_ids=[1] * 257) for _ in range(num_rows)]
    if rows:
        batch.join([Newcomer(row, read_cache(256)) for row in rows], vocabulary_size=100)
    monkeypatch.setattr(batch_cache, "COPY_BYTES", 1)
    newcomers = [Newcomer(make_row(token_ids=[1] * 257), read_cache(256)) for _ in range(2)]
    newcomers[1].cache[5].keys = mx.zeros((1, 3, 256, 64))  # a head too many
    with pytest.raises(CachesLost):
        batch.join(newcomers, vocabulary_size=100)
    assert batch.rows == rows


def test_many_answers_to_one_prompt_join_in_one_copy(load_tiny: LoadTiny) -> None:
    """Joining one after the other would copy the batch as often as there are answers."""
    model = load_tiny("llama")
    prompt = prompt_of(400, 1)
    cache = make_prompt_cache(model.model)
    model.model(mx.array(prompt[:-1])[None], cache=cache)
    mx.eval([entry.state for entry in cache])
    batch = DecodeBatch(model.model)
    rows = [make_row(token_ids=list(prompt), num_prompt_tokens=400) for _ in range(64)]
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    batch.join([Newcomer(row, list(cache)) for row in rows], vocabulary_size=model.vocabulary_size)
    batch.step()
    batch.settle()
    taken = mx.get_peak_memory() - before
    assert taken <= 3 * batch.cache_bytes


ALL_KINDS = (
    GREEDY,
    DRAWN,
    replace(DRAWN, temperature=0.7, top_p=0.9),
    replace(DRAWN, top_k=20, top_p=0.8, min_p=0.01),
    replace(DRAWN, xtc_probability=0.5, xtc_threshold=0.02, xtc_spared=(2,)),
    replace(GREEDY, repetition_penalty=1.3),
    replace(GREEDY, presence_penalty=1.0, frequency_penalty=0.5),
    replace(DRAWN, frequency_penalty=1.5, logit_bias=((7, 4.0), (9, -50.0)), top_p=0.8),
)


@pytest.mark.parametrize("xp", [np, mx], ids=["numpy", "mlx"])
def test_rows_of_all_kinds_equal_each_alone(
    xp: Any, load_tiny: LoadTiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever joins, leaves, or goes on after an interruption."""
    monkeypatch.setattr(logits_edits, "array_module", lambda vocabulary_size: xp)
    model = load_tiny("llama")

    def make(i: int) -> Row:
        return make_row(replace(ALL_KINDS[i], seed=i), key=draw_key(i, 0), top_logprobs=0)

    prompts = [prompt_of(5 + 3 * i, i) for i in range(len(ALL_KINDS))]
    expected = []
    for i, prompt in enumerate(prompts):
        single = Bench(model)
        row = single.join(make(i), prompt)
        single.steps(40)
        expected.append(single.tokens[row])
    bench = Bench(model)
    rows = []
    for i, prompt in enumerate(prompts):
        rows.append(bench.join(make(i), prompt))
        bench.steps(i % 3)
    interrupted = (1, 5, 6, 7)
    bench.steps(6)
    bench.batch.leave({rows[i] for i in interrupted})
    bench.steps(2)
    for i in interrupted:
        rows[i] = bench.join(make(i), prompts[i], answer=bench.tokens[rows[i]])
        bench.steps(1)
    bench.steps(8)
    for i, row in enumerate(rows):
        got = bench.tokens[row]
        assert len(got) >= 14
        assert got == expected[i][: len(got)], ALL_KINDS[i]


def test_likeliest_are_the_largest_in_order() -> None:
    values = mx.array([[1.0, 5.0, 3.0, 4.0], [9.0, 7.0, 8.0, 6.0]])
    assert likeliest(values, 2).tolist() == [[1, 3], [0, 2]]
    assert likeliest(values, 4).tolist() == [[1, 3, 2, 0], [0, 2, 1, 3]]
    assert likeliest(values, 20).shape == (2, 4)
    assert likeliest(values, 0).shape == (2, 0)
