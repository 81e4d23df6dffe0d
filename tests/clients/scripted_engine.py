"""An engine that says what a test tells it to, for clients whose prompts no test model knows.

All of HTTP and the wire formats is real; only the model is not.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.events import (
    Completed,
    Event,
    Finished,
    Started,
    TextDelta,
    Timings,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Message
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Reply:
    """What is said, and then one call of a tool, by its name and arguments."""

    text: str = ""
    call: tuple[str, Mapping[str, Any]] | None = None


Script = Callable[[GenerateRequest], Reply]


class ScriptedEngine(Engine):
    """``requests`` are those it was asked to answer, in their order."""

    def __init__(self, settings: Settings, catalog: Catalog, *, script: Script) -> None:
        super().__init__(settings, catalog)
        self.requests: list[GenerateRequest] = []
        self.num_counts = 0
        self._script = script

    def forget(self) -> None:
        self.requests.clear()
        self.num_counts = 0

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def count_tokens(self, request: GenerateRequest) -> int:
        self.num_counts += 1
        return _num_words(request)

    async def generate(
        self, request: GenerateRequest, *, keep_alive_s: float | None = None
    ) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        for event in _events(request, self._script(request)):
            yield event


def _events(request: GenerateRequest, reply: Reply) -> Iterator[Event]:
    num_prompt, num_words = _num_words(request), len(reply.text.split()) + 1
    yield Started(request.model, num_prompt)
    for word in reply.text.split(" ") if reply.text else ():
        yield TextDelta(0, word + " ")
    if reply.call is not None:
        name, arguments = reply.call
        written = json.dumps(arguments)
        yield ToolCallStart(0, 0, f"call_{request.id}", name)
        for place in range(0, len(written), 5):
            yield ToolCallDelta(0, 0, written[place : place + 5])
    yield Finished(0, "tool_calls" if reply.call else "stop", None, num_words)
    yield Completed(Usage(num_prompt, num_words), Timings(0.0, 0.0, 0.0, 0.0))


def _num_words(request: GenerateRequest) -> int:
    return sum(len((message.text or "").split()) for message in messages_of(request))


def messages_of(request: GenerateRequest) -> tuple[Message, ...]:
    [prompt] = request.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages
