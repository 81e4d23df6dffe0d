"""An engine that answers by the last message, at a pace that a test can watch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    Timings,
    Usage,
)
from maxi_mlx.core.request import GenerateRequest
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from tests.clients.scripted_engine import messages_of

PACE_S = 0.02
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mred\r\x08 \x1b[6n and \u202eback"
MARKDOWN = (
    "# Title\n\nSome **bold** and `code` words.\n\n- one\n- two\n\n"
    "```python\ndef add(a, b):\n    return a + b\n```\n\n| a | b |\n|---|---|\n| 1 | 22 |\n\nEnd.\n"
)


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str


class Break:
    """The device fails here."""


class Hold:
    """Goes on once the test has set ``go_on``."""


Step = str | Thinking | Pause | Break | Hold


def script(asked: str, num_messages: int) -> Sequence[Step]:
    match asked.split()[0]:
        case "count":
            return [f"{number} " for number in range(1, 1 + int(asked.split()[1]))]
        case "hold":
            words = [f"{number} " for number in range(1, 1 + int(asked.split()[1]))]
            return [*words[:25], Hold(), *words[25:]]
        case "held":
            return [Hold(), "Done."]
        case "slow":
            return ["Begun ", Pause(60), "never"]
        case "wait":
            return [Pause(2.5), "Done."]
        case "think":
            return [Thinking("I wonder. "), Thinking("Yes."), "It is 42."]
        case "hostile":
            return [HOSTILE[:9], HOSTILE[9:]]
        case "markdown":
            return [MARKDOWN[place : place + 3] for place in range(0, len(MARKDOWN), 3)]
        case "fail":
            return ["Half an ", Break()]
        case _:
            return [f"[{num_messages}] {asked}"]


class PacedEngine(Engine):
    """``requests`` are those it was asked to answer; ``num_left_off`` of them were broken off."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        super().__init__(settings, catalog)
        self.requests: list[GenerateRequest] = []
        self.num_left_off = 0
        self.go_on = threading.Event()

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def load(self, name: str) -> str:
        return name

    async def generate(
        self, request: GenerateRequest, *, keep_alive_s: float | None = None
    ) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        messages = messages_of(request)
        num_said = 0
        yield Started(request.model, len(messages))
        try:
            for step in script(messages[-1].text or "", len(messages)):
                match step:
                    case Pause(seconds):
                        await asyncio.sleep(seconds)
                    case Hold():
                        while not self.go_on.is_set():
                            await asyncio.sleep(0.01)
                    case Break():
                        yield Failed(EngineFailed("The device failed."))
                        return
                    case Thinking(text):
                        yield ReasoningDelta(0, text)
                    case text:
                        num_said += 1
                        yield TextDelta(0, text)
                        await asyncio.sleep(PACE_S)
        except (asyncio.CancelledError, GeneratorExit):
            self.num_left_off += 1
            raise
        limit = request.max_tokens
        is_cut = limit is not None and num_said >= limit
        yield Finished(0, "length" if is_cut else "stop", None, num_said)
        yield Completed(Usage(len(messages), num_said), Timings(0.0, 0.0, 0.0, 0.0))
