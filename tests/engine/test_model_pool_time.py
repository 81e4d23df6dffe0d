"""How long models stay: by a clock that the test sets, and what the owner and requests say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.events import TextDelta
from maxi_mlx.core.keep_alive import FOREVER
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.engine.asking import Reply, ask, make_request, until_gone
from tests.engine.conftest import make_engine

pytestmark = pytest.mark.slow

PROMPT = [20, 30, 40]

TinyModel = Callable[[str], Path]


class LoopClock:
    """The loop's own time, which runs as fast as the test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real, self._ahead_s = loop.time, 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self._ahead_s)

    async def advance(self, seconds: float) -> None:
        """And lets what is due by then begin."""
        self._ahead_s += seconds
        await asyncio.sleep(0.05)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


def loaded(engine: Engine) -> set[str]:
    return {model.id for model in engine.status().loaded}


def expiry(engine: Engine) -> float | None:
    [model] = engine.status().loaded
    return model.expires_in_s


async def told(engine: Engine, keep_alive_s: float | None, **more: object) -> Reply:
    """As a request with that keep_alive."""
    request = make_request(PROMPT, **more)
    reply = Reply()
    async for event in engine.generate(request, keep_alive_s=keep_alive_s):
        reply.events.append(event)
    return reply


@asynccontextmanager
async def with_one(tiny_model: TinyModel, keep_alive_s: float) -> AsyncIterator[Engine]:
    settings = Settings(keep_alive_s=keep_alive_s)
    async with make_engine([tiny_model("llama")], settings) as engine:
        await engine.wait_ready()
        yield engine


async def test_a_model_goes_when_its_time_is_over(tiny_model: TinyModel, clock: LoopClock) -> None:
    async with with_one(tiny_model, 300) as engine:
        await ask(engine, make_request(PROMPT))
        await clock.advance(270)
        assert loaded(engine) == {"tiny-llama"}
        left_s = expiry(engine)
        assert left_s is not None
        assert 0 < left_s <= 30
        await clock.advance(31)
        await until_gone(engine)
        assert (await ask(engine, make_request(PROMPT))).text  # and comes back


async def test_each_use_starts_the_time_anew(tiny_model: TinyModel, clock: LoopClock) -> None:
    async with with_one(tiny_model, 300) as engine:
        for _ in range(3):
            await ask(engine, make_request(PROMPT))
            await clock.advance(200)
            assert loaded(engine) == {"tiny-llama"}
        await clock.advance(101)
        await until_gone(engine)


async def test_a_model_in_use_stays_however_long_it_takes(
    tiny_model: TinyModel, clock: LoopClock
) -> None:
    async with with_one(tiny_model, 100) as engine:
        events = engine.generate(make_request(PROMPT, max_tokens=300))
        await anext(events)
        await clock.advance(1000)
        assert loaded(engine) == {"tiny-llama"}
        assert expiry(engine) == 100
        async for _ in events:
            pass
        await clock.advance(60)
        assert loaded(engine) == {"tiny-llama"}
        await clock.advance(41)
        await until_gone(engine)


async def test_nought_is_no_longer_than_the_request(tiny_model: TinyModel) -> None:
    async with with_one(tiny_model, 0) as engine:
        assert (await ask(engine, make_request(PROMPT))).text
        await until_gone(engine)


async def test_for_ever(tiny_model: TinyModel, clock: LoopClock) -> None:
    async with with_one(tiny_model, FOREVER) as engine:
        await ask(engine, make_request(PROMPT))
        await clock.advance(1e7)
        assert loaded(engine) == {"tiny-llama"}
        assert expiry(engine) is None


async def test_a_request_sets_the_time_until_another_sets_it(
    tiny_model: TinyModel, clock: LoopClock
) -> None:
    async with with_one(tiny_model, 300) as engine:
        await told(engine, 1000)
        await clock.advance(900)
        assert loaded(engine) == {"tiny-llama"}
        await told(engine, None)
        await clock.advance(900)
        assert loaded(engine) == {"tiny-llama"}
        await told(engine, FOREVER)
        assert expiry(engine) is None
        await told(engine, 5)
        await clock.advance(6)
        await until_gone(engine)
        # Loaded anew, it begins with what the owner said.
        await told(engine, None)
        assert expiry(engine) == pytest.approx(285, abs=15)


async def test_loading_and_unloading_by_request(tiny_model: TinyModel) -> None:
    async with with_one(tiny_model, 300) as engine:
        assert await engine.unload("tiny-llama") == "tiny-llama"  # there is nothing to do
        assert await engine.load("tiny-llama", keep_alive_s=FOREVER) == "tiny-llama"
        assert expiry(engine) is None
        await engine.unload("tiny-llama")
        assert loaded(engine) == set()


async def test_unloading_waits_for_who_uses_it(tiny_model: TinyModel) -> None:
    async with with_one(tiny_model, 300) as engine:
        whole = await ask(engine, make_request(PROMPT, max_tokens=100))
        running = engine.generate(make_request(PROMPT, max_tokens=100))
        await anext(running)  # in use for as long as nobody reads on
        await engine.unload("tiny-llama")
        assert loaded(engine) == {"tiny-llama"}
        texts = [event.text async for event in running if isinstance(event, TextDelta)]
        assert "".join(texts) == whole.text
        await until_gone(engine)


async def test_the_models_of_the_owner_stay(tiny_model: TinyModel, clock: LoopClock) -> None:
    settings = Settings(model="tiny-llama", pins=("tiny-qwen3",), keep_alive_s=10)
    folders = [tiny_model(family) for family in ("llama", "qwen3", "qwen2")]
    async with make_engine(folders, settings) as engine:
        await engine.wait_ready()
        assert loaded(engine) == {"tiny-llama", "tiny-qwen3"}
        assert [model.is_pinned for model in engine.status().loaded] == [False, True]
        await told(engine, 0, model="tiny-qwen3")
        await told(engine, 0, model="tiny-llama")
        await ask(engine, make_request(PROMPT, model="tiny-qwen2"))
        await clock.advance(1000)
        assert loaded(engine) == {"tiny-llama", "tiny-qwen3"}
        with pytest.raises(InvalidRequest, match="tiny-qwen3 is pinned"):
            await engine.unload("tiny-qwen3")
        await engine.unload("tiny-llama")
        assert loaded(engine) == {"tiny-qwen3"}


async def test_who_comes_while_a_model_goes_is_answered(tiny_model: TinyModel) -> None:
    """Requests at the very moment at which the time is over: before, at it, after it."""
    async with with_one(tiny_model, 0) as engine:
        want = (await ask(engine, make_request(PROMPT))).text
        for pauses in range(30):
            first = asyncio.create_task(ask(engine, make_request(PROMPT)))
            await first
            for _ in range(pauses):
                await asyncio.sleep(0)
            assert (await ask(engine, make_request(PROMPT))).text == want
        await until_gone(engine)


async def test_a_load_whose_clients_all_left_is_kept_for_its_time(
    tiny_model: TinyModel, clock: LoopClock
) -> None:
    async with with_one(tiny_model, 60) as engine:
        waiting = asyncio.create_task(ask(engine, make_request(PROMPT)))
        while not loaded(engine):
            await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(30):
            while engine.status().loaded[0].state != "ready":
                await asyncio.sleep(0.01)
        await clock.advance(61)
        await until_gone(engine)
