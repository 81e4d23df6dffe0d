"""Thousands of random requests at once: none hangs, none answers wrong, nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import random
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from maxi_mlx.core.events import Completed, TextDelta
from maxi_mlx.core.request import GenerateRequest, SamplingParams
from maxi_mlx.engine.engine import Engine
from tests.engine.asking import ask, make_request
from tests.engine.conftest import make_engine
from tests.models import build_model

NUM_REQUESTS = 2000
NUM_KINDS = 60
CONCURRENCY = 24
# Around the borders of slices, of the caches' growth and of everything that is a power of two.
LENGTHS = (1, 2, 3, 7, 31, 32, 33, 48, 63, 64, 65, 100, 255, 256, 257, 511, 513, 1024, 2049, 4097)


def random_request(dice: random.Random) -> GenerateRequest:
    length = dice.choice(LENGTHS[:15]) if dice.random() < 0.9 else dice.choice(LENGTHS)
    # Few beginnings, so that prompts share prefixes.
    start = dice.randrange(4)
    prompt = [10 + (start + i * i) % 400 for i in range(length)]
    greedy = dice.random() < 0.4
    bias = tuple((dice.randrange(500), dice.uniform(-5, 5)) for _ in range(dice.randrange(3)))
    sampling = SamplingParams(
        temperature=0.0 if greedy else dice.choice((0.3, 1.0, 1.7)),
        top_p=dice.choice((None, 0.5, 0.95)),
        top_k=dice.choice((None, 1, 40, 100_000)),
        min_p=dice.choice((None, 0.05)),
        repetition_penalty=dice.choice((None, None, 1.3)),
        presence_penalty=dice.choice((0.0, 0.0, 1.0)),
        frequency_penalty=dice.choice((0.0, 0.0, -0.5)),
        logit_bias=bias,
        seed=dice.getrandbits(64),
    )
    return make_request(
        prompt,
        model="soaked",
        sampling=sampling,
        max_tokens=dice.choice((1, 2, 5, 16, 40)),
        n=dice.choice((1, 1, 1, 2, 5)),
        top_logprobs=dice.choice((None, None, 0, 5)),
        stop=dice.choice(((), (), ("e",), ("qu", "a b"))),
    )


async def leave_early(engine: Engine, request: GenerateRequest, dice: random.Random) -> None:
    """Reads a few events, or none, and goes."""
    num_events = dice.randrange(6)
    async with aclosing(engine.generate(request)) as events:
        async for event in events:
            if not num_events or isinstance(event, Completed):
                return
            num_events -= isinstance(event, TextDelta)


async def unstored_bytes(engine: Engine) -> int:
    """What MLX holds once the prompt cache is emptied: what is left has no limit of its own."""
    await engine._device.call(lambda: engine._device.free_prefixes(1 << 40))
    gc.collect()
    return mx.get_active_memory()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("family", ["llama", "gemma3"])
async def test_two_thousand_random_requests(family: str, tmp_path: Path) -> None:
    folder = build_model(tmp_path / "soaked", family, max_position_embeddings=8192)
    dice = random.Random(family)
    kinds = [random_request(dice) for _ in range(NUM_KINDS)]
    async with make_engine([folder]) as engine:
        expected = [(await ask(engine, kind)).texts for kind in kinds]
        gc.collect()
        before = await unstored_bytes(engine)
        places = asyncio.Semaphore(CONCURRENCY)
        num_answers = 0

        async def one(number: int) -> None:
            nonlocal num_answers
            index = dice.randrange(NUM_KINDS)
            request = replace(kinds[index], id=f"soak-{number}")
            async with places:
                if dice.random() < 0.25:
                    await leave_early(engine, request, dice)
                    return
                reply = await ask(engine, request)
                assert reply.failure is None
                assert reply.texts == expected[index], request
                num_answers += 1

        count = NUM_REQUESTS if family == "llama" else NUM_REQUESTS // 4
        async with asyncio.timeout(1700):
            await asyncio.gather(*(one(number) for number in range(count)))
        assert num_answers > count / 2
        await quiet(engine)
        gc.collect()
        assert await unstored_bytes(engine) <= before * 1.02
        assert engine.status().fault is None


async def quiet(engine: Engine) -> None:
    """Until the device thread says that it holds nothing for anybody."""
    for _ in range(1200):
        status = engine.status()
        if not status.num_running and not status.kv_cache_bytes:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(engine.status())
