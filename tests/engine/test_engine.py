"""The whole engine over real tiny models: requests in, events out."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from mlx_lm.generate import stream_generate

from maxi_mlx.core.errors import (
    ContextTooLong,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    Unavailable,
)
from maxi_mlx.core.events import Started, TextDelta
from maxi_mlx.core.request import SamplingParams, TextPrompt, TokenPrompt
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.engine.asking import Reply, ask, make_request, settled, slowed
from tests.engine.conftest import LoadTiny, make_engine

pytestmark = pytest.mark.usefixtures("no_leftover_rows")

PROMPT = [20, 30, 40, 50]


def reference(load_tiny: LoadTiny, family: str, prompt: list[int], count: int) -> str:
    model = load_tiny(family)
    ids = [
        r.token
        for r in stream_generate(model.model, model.tokenizer, prompt, max_tokens=count)
        if r.token not in model.end_ids
    ]
    return str(model.tokenizer.decode(ids, skip_special_tokens=True))


def without_half_a_character(text: str, reply: Reply) -> str:
    """The library decodes the half of a character that an answer was cut in to U+FFFD."""
    return text[:-1] if text == reply.text + "\ufffd" else text


@pytest.mark.parametrize("family", ["llama", "qwen3"])
async def test_greedy_text_is_mlx_lms(engine: Engine, load_tiny: LoadTiny, family: str) -> None:
    request = make_request(PROMPT, model=f"tiny-{family}", max_tokens=60)
    reply = await ask(engine, request)
    expected = reference(load_tiny, family, PROMPT, 60)
    assert reply.text == without_half_a_character(expected, reply)
    finish = reply.finishes[0]
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == ("length", 60)
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, 60)


async def test_word_mark_tokenizers_decode_as_the_library_does(
    engine: Engine, load_tiny: LoadTiny
) -> None:
    """Without byte tokens: a random model puts them where no text has them."""
    model = load_tiny("llama-spm")
    pieces = model.tokenizer.get_vocab()
    bias = tuple((i, -1e9) for piece, i in pieces.items() if piece.startswith("<0x"))
    sampling = SamplingParams(temperature=0, logit_bias=bias)
    for seed in range(5):
        prompt = [60 + seed, 30]
        request = make_request(prompt, model="tiny-llama-spm", sampling=sampling, max_tokens=30)
        reply = await ask(engine, replace(request, top_logprobs=0))
        ids = [token.token_id for token in reply.tokens[0]]
        text = str(model.tokenizer.decode([*prompt, *ids], skip_special_tokens=True))
        start = str(model.tokenizer.decode(prompt, skip_special_tokens=True))
        assert start + reply.text == text


async def test_requests_together_equal_each_alone(engine: Engine) -> None:
    requests = [make_request([20 + i, 30, 40 + i] * (1 + 7 * i), max_tokens=24) for i in range(6)]
    together = await asyncio.gather(*(ask(engine, request) for request in requests))
    for request, reply in zip(requests, together, strict=True):
        assert reply.text == (await ask(engine, request)).text


async def test_a_stop_string_ends_the_answer_and_the_work_at_once(engine: Engine) -> None:
    whole = (await ask(engine, make_request(PROMPT, max_tokens=60))).text
    stop = whole[17:20]
    reply = await ask(engine, make_request(PROMPT, max_tokens=400, stop=(stop, "never there")))
    assert reply.text == whole[: whole.index(stop)]
    finish = reply.finishes[0]
    assert finish is not None
    assert (finish.reason, finish.stop_string) == ("stop", stop)
    assert finish.completion_tokens < 60
    assert reply.usage is not None
    assert reply.usage.completion_tokens == finish.completion_tokens


async def test_several_choices_of_several_prompts(engine: Engine) -> None:
    sampling = SamplingParams(temperature=1.0, seed=5)
    prompts = (TokenPrompt((20, 30)), TokenPrompt((40, 50, 60)))
    reply = await ask(engine, make_request(PROMPT, prompts=prompts, n=2, sampling=sampling))
    assert len(set(reply.texts)) == 4
    assert [f.choice for f in reply.finishes if f is not None] == [0, 1, 2, 3]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (5, 64)
    single = await ask(engine, make_request((20, 30), sampling=sampling))
    assert single.text == reply.texts[0]


async def test_seeds(engine: Engine) -> None:
    async def text(seed: int | None) -> str:
        sampling = SamplingParams(temperature=1.0, seed=seed)
        return (await ask(engine, make_request(PROMPT, sampling=sampling))).text

    assert await text(2**63) == await text(2**63)
    assert await text(1) != await text(2)
    assert await text(None) != await text(None)
    alone = await text(1)
    neighbours = [asyncio.create_task(text(None)) for _ in range(5)]
    assert await text(1) == alone
    await asyncio.gather(*neighbours)


async def test_echo_begins_with_the_prompt(engine: Engine) -> None:
    plain = await ask(engine, make_request(TextPrompt("one two")))
    echoed = await ask(engine, make_request(TextPrompt("one two"), echo=True, n=2))
    assert echoed.texts == ["one two" + plain.text] * 2


async def test_logprobs_join_into_the_text(engine: Engine) -> None:
    reply = await ask(engine, make_request(PROMPT, top_logprobs=3, max_tokens=40))
    assert b"".join(token.data for token in reply.tokens[0]).decode(errors="replace") == reply.text
    assert len(reply.tokens[0]) == 40
    for token in reply.tokens[0]:
        assert len(token.top) == 3
        assert token.top[0].token_id == token.token_id  # greedy: the likeliest was taken
        assert token.logprob == pytest.approx(token.top[0].logprob)
    plain = await ask(engine, make_request(PROMPT))
    assert plain.tokens == [[]]


async def test_the_first_event_tells_the_prompts_length_before_any_work(engine: Engine) -> None:
    async with aclosing(engine.generate(make_request(PROMPT))) as events:
        assert await anext(events) == Started("tiny-llama", 4)


@pytest.mark.parametrize(
    ("prompt", "changes", "error", "words"),
    [
        pytest.param(TokenPrompt(()), {}, InvalidRequest, "empty", id="no tokens"),
        pytest.param(
            TextPrompt(""), {"model": "tiny-qwen3"}, InvalidRequest, "empty", id="no text"
        ),
        pytest.param([10, 99_999], {}, InvalidRequest, "99999.*ends at 511", id="token id"),
        pytest.param([10] * 512, {}, ContextTooLong, "512 tokens.*context of 512", id="too long"),
        pytest.param(
            [10],
            {"sampling": SamplingParams(logit_bias=((512, 1.0),))},
            InvalidRequest,
            "logit_bias names token 512",
            id="bias",
        ),
        pytest.param([10], {"model": "tiny-lama"}, ModelNotFound, "tiny-llama", id="unknown model"),
        pytest.param([10], {"model": ""}, ModelNotFound, "names no model", id="no model"),
        pytest.param(TextPrompt("a", "b"), {}, InvalidRequest, "fill-in-the-middle", id="suffix"),
    ],
)
async def test_refused_at_the_door(
    engine: Engine, prompt: Any, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await ask(engine, make_request(prompt, **changes))
    assert (await ask(engine, make_request(PROMPT))).text


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 255, 256, 257, 511])
async def test_prompts_of_every_length_are_answered(
    engine: Engine, load_tiny: LoadTiny, length: int
) -> None:
    prompt = [10 + i % 400 for i in range(length)]
    reply = await ask(engine, make_request(prompt, max_tokens=None if length > 500 else 4))
    count = 1 if length > 500 else 4
    expected = reference(load_tiny, "llama", prompt, count)
    assert reply.text == without_half_a_character(expected, reply)


async def test_without_max_tokens_the_answer_ends_with_the_context(engine: Engine) -> None:
    bias = tuple((token_id, -100.0) for token_id in (0, 1, 2))  # no end
    request = make_request([10] * 500, max_tokens=None)
    request = replace(request, sampling=SamplingParams(temperature=0, logit_bias=bias))
    reply = await ask(engine, request)
    finish = reply.finishes[0]
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == ("length", 12)


async def test_fill_in_the_middle_uses_the_models_own_marks(engine: Engine) -> None:
    reply = await ask(engine, make_request(TextPrompt("def f(", "return 1"), model="tiny-qwen2"))
    assert reply.usage is not None
    plain = await ask(engine, make_request(TextPrompt("def f(return 1"), model="tiny-qwen2"))
    assert plain.usage is not None
    assert reply.usage.prompt_tokens >= plain.usage.prompt_tokens + 2


async def test_names(engine: Engine) -> None:
    for name in ("tiny-llama", "TINY-Llama", "tiny-llama:latest"):
        reply = await ask(engine, make_request(PROMPT, model=name))
        assert isinstance(reply.events[0], Started)
        assert reply.events[0].model == "tiny-llama"
    # The one in use answers requests that name none.
    for name in ("", "default"):
        reply = await ask(engine, make_request(PROMPT, model=name))
        assert isinstance(reply.events[0], Started)
        assert reply.events[0].model == "tiny-llama"


async def test_a_client_that_leaves_frees_its_row(engine: Engine) -> None:
    events = engine.generate(make_request(PROMPT, max_tokens=None))
    async for event in events:
        if isinstance(event, TextDelta):
            break
    assert engine.status().num_running == 1
    await events.aclose()
    assert engine.status().num_running == 0
    await settled(engine)
    assert engine.status().kv_cache_bytes == 0


async def test_a_task_that_is_cancelled_frees_its_row(engine: Engine) -> None:
    await ask(engine, make_request(PROMPT))
    with slowed():
        task = asyncio.create_task(ask(engine, make_request(PROMPT, max_tokens=None)))
        while not engine.status().num_running:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await settled(engine)
    assert engine.status().kv_cache_bytes == 0


async def test_a_full_queue_refuses_with_a_time_to_come_back(tiny_model: Any) -> None:
    scheduler = replace(Settings().scheduler, max_running_rows=1, max_waiting_requests=2)
    async with make_engine([tiny_model("llama")], Settings(scheduler=scheduler)) as engine:
        await ask(engine, make_request(PROMPT))
        tasks: list[asyncio.Task[Reply]] = []
        with slowed():
            for _ in range(3):
                request = make_request(PROMPT, max_tokens=200)
                tasks.append(asyncio.create_task(ask(engine, request)))
                while not engine.status().num_running:
                    await asyncio.sleep(0.01)
            while engine.status().num_waiting < 2:
                await asyncio.sleep(0.01)
            assert engine.status().num_running == 1
            with pytest.raises(Overloaded, match="2 requests are waiting") as caught:
                await ask(engine, make_request(PROMPT))
        assert caught.value.retry_after_s == 1
        replies = await asyncio.gather(*tasks)
        assert len({reply.text for reply in replies}) == 1


async def test_draining_refuses_new_requests_and_finishes_running_ones(tiny_model: Any) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await ask(engine, make_request(PROMPT))
        with slowed():
            running = asyncio.create_task(ask(engine, make_request(PROMPT, max_tokens=200)))
            while not engine.status().num_running:
                await asyncio.sleep(0.01)
            drain = asyncio.create_task(engine.drain(100))
            await asyncio.sleep(0)
            assert engine.status().state == "draining"
            with pytest.raises(Unavailable, match="shutting down"):
                await ask(engine, make_request(PROMPT))
        assert await drain
        finish = (await running).finishes[0]
        assert finish is not None
        assert finish.completion_tokens == 200


async def test_closing_ends_running_answers_with_a_reason(tiny_model: Any) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await ask(engine, make_request(PROMPT))
        with slowed():
            running = asyncio.create_task(ask(engine, make_request(PROMPT, max_tokens=500)))
            while not engine.status().num_running:
                await asyncio.sleep(0.01)
            await engine.close()
        assert (await running).failure == "The server is shutting down."


async def test_a_drain_that_takes_too_long_says_so(tiny_model: Any) -> None:
    async with make_engine([tiny_model("llama")]) as engine:
        await ask(engine, make_request(PROMPT))
        with slowed():
            running = asyncio.create_task(ask(engine, make_request(PROMPT, max_tokens=500)))
            while not engine.status().num_running:
                await asyncio.sleep(0.01)
            assert not await engine.drain(0.01)
            running.cancel()


async def test_what_is_imported_is_not_looked_through_at_every_unload(tiny_model: Any) -> None:
    """Every object that there is once the engine runs stays; a model that is loaded later is none
    of these, and so can go."""
    async with make_engine([tiny_model("llama")]) as engine:
        await engine.wait_ready()
        num_kept = gc.get_freeze_count()
        await ask(engine, make_request([1, 2, 3]))
        assert num_kept > 10_000
        assert gc.get_freeze_count() <= num_kept
