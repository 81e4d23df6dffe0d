"""Many more prompts than there is room for, at once and again and again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from maxi_mlx.core.settings import Settings
from tests.engine.asking import ask, make_request
from tests.engine.conftest import make_engine
from tests.engine.test_soak import quiet
from tests.models import build_model

NUM_ROUNDS = 500
NUM_AT_ONCE = 16
NUM_PROMPTS = 40
PROMPT_TOKENS = 24
TOKEN_BYTES = 2 * 2 * 2 * 16 * 4  # two layers, keys and values, two heads of 16 numbers


def prompt(number: int) -> list[int]:
    dice = random.Random(number)
    return [dice.randrange(10, 400) for _ in range(PROMPT_TOKENS)]


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_sixteen_at_once_with_room_for_two(tmp_path: Path) -> None:
    folder = build_model(tmp_path / "crowded", "llama")
    budget = 2 * (PROMPT_TOKENS + 3) * TOKEN_BYTES
    settings = Settings(cache_memory_bytes=budget, cache_dir=tmp_path / "kept")
    dice = random.Random(1)
    async with make_engine([folder], settings) as engine:

        async def answer(number: int, *, uses_cache: bool = True) -> str:
            request = make_request(
                prompt(number), model="crowded", max_tokens=2, uses_cache=uses_cache
            )
            return (await ask(engine, request)).text

        expected = [await answer(number, uses_cache=False) for number in range(NUM_PROMPTS)]
        assert len(set(expected)) > NUM_PROMPTS // 2
        for _ in range(NUM_ROUNDS):
            numbers = dice.sample(range(NUM_PROMPTS), NUM_AT_ONCE)
            async with asyncio.timeout(100):
                texts = await asyncio.gather(*map(answer, numbers))
            assert texts == [expected[number] for number in numbers]
        await quiet(engine)
        status = engine.status()
        assert status.fault is None
        assert status.prefixes.num_bytes <= budget
        assert status.prefixes.num_evictions > NUM_ROUNDS
