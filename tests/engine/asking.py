"""Asks an engine, collects what it answers, and waits for what it does."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import pytest

from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    Started,
    TextDelta,
    TokenLogprob,
    Usage,
)
from maxi_mlx.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Prompt,
    SamplingParams,
    TextPrompt,
    TokenPrompt,
)
from maxi_mlx.engine.device_work import DeviceWork
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.mailbox import Outbox
from maxi_mlx.engine.rota import Rota

_numbers = itertools.count()


@dataclass
class Reply:
    """A whole answer. ``texts``, ``finishes`` and ``tokens`` are by choice."""

    events: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    finishes: list[Finished | None] = field(default_factory=list)
    tokens: list[list[TokenLogprob]] = field(default_factory=list)
    usage: Usage | None = None
    failure: str | None = None

    @property
    def text(self) -> str:
        assert len(self.texts) == 1
        return self.texts[0]


def make_request(prompt: Prompt | str | Sequence[int], **changes: Any) -> GenerateRequest:
    """A greedy request; ``prompt`` is a user's message, token ids, or a prompt value."""
    if isinstance(prompt, str):
        prompt = ChatPrompt(messages=(Message(role="user", text=prompt),))
    elif not isinstance(prompt, ChatPrompt | TextPrompt | TokenPrompt):
        prompt = TokenPrompt(tuple(prompt))
    settings: dict[str, Any] = {
        "id": f"req-{next(_numbers)}",
        "model": "tiny-llama",
        "prompts": (prompt,),
        "max_tokens": 16,
        "sampling": SamplingParams(temperature=0.0),
    }
    return GenerateRequest(**settings | changes)


async def ask(engine: Engine, request: GenerateRequest) -> Reply:
    count = request.num_choices
    reply = Reply([], [""] * count, [None] * count, [[] for _ in range(count)])
    async for event in engine.generate(request):
        reply.events.append(event)
        match event:
            case TextDelta(choice, text, tokens):
                reply.texts[choice] += text
                reply.tokens[choice] += tokens
            case Finished(choice):
                reply.finishes[choice] = event
            case Completed(usage):
                reply.usage = usage
            case Failed(error):
                reply.failure = error.message
    assert isinstance(reply.events[0], Started)
    assert isinstance(reply.events[-1], Completed | Failed)
    return reply


@contextmanager
def slowed() -> Iterator[None]:
    """A turn takes 50 ms meanwhile, so that what runs is still running when a test looks."""
    turn = Rota.turn

    def slow(rota: Rota, models: Sequence[DeviceWork]) -> Outbox:
        time.sleep(0.05)
        return turn(rota, models)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rota, "turn", slow)
        yield


async def settled(engine: Engine) -> None:
    """Waits until the device has nothing left to do, as a step may be begun ahead of an answer's
    last word, and has given back what nobody needs."""
    device = engine._device
    async with asyncio.timeout(30):
        while await device.call(lambda: any(work.has_work for work in device._works)):
            await asyncio.sleep(0.01)
    await device.call(mx.synchronize)
    await device.call(device.free_memory)


async def listed(engine: Engine) -> None:
    """Waits until the disk has said what it has of all loaded models: before, nothing is kept."""
    device = engine._device
    async with asyncio.timeout(30):
        while not await device.call(
            lambda: all(work.prefixes.store.is_listed for work in device._works)  # type: ignore[attr-defined]
        ):
            await asyncio.sleep(0.01)


async def until_gone(engine: Engine) -> None:
    """Waits until no model is loaded any more."""
    async with asyncio.timeout(30):
        while engine.status().loaded:
            await asyncio.sleep(0.01)
