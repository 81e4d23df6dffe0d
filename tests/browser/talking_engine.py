"""The real engine, which says what a test tells it to where it is asked a question of the test's:
text that no model of the tests writes, at a pace that a test can keep up with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.errors import EngineFailed
from maxi_mlx.core.events import (
    Completed,
    Event,
    Finished,
    PrefillProgress,
    ReasoningDelta,
    Started,
    TextDelta,
    Timings,
    Usage,
)
from maxi_mlx.core.request import ChatPrompt, GenerateRequest
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine

NUM_PROMPT_TOKENS = 20


@dataclass(frozen=True, slots=True)
class Speech:
    """What is thought and said, a piece every ``pause_s``; then it fails, where it ``fails``."""

    text: str
    thought: str = ""
    pause_s: float = 0.0
    fails: str | None = None


class TalkingEngine(Engine):
    """``speeches`` are by the last thing that the user said."""

    def __init__(
        self, settings: Settings, catalog: Catalog, *, speeches: Mapping[str, Speech]
    ) -> None:
        super().__init__(settings, catalog)
        self._speeches = speeches

    async def generate(
        self, request: GenerateRequest, *, keep_alive_s: float | None = None
    ) -> AsyncGenerator[Event, None]:
        speech = self._speeches.get(_asked(request))
        if speech is None:
            async for event in super().generate(request, keep_alive_s=keep_alive_s):
                yield event
            return
        yield Started(request.model, NUM_PROMPT_TOKENS)
        yield PrefillProgress(NUM_PROMPT_TOKENS, NUM_PROMPT_TOKENS)
        num_tokens = 0
        for kind, text in ((ReasoningDelta, speech.thought), (TextDelta, speech.text)):
            for piece in re.findall(r"\s*\S{1,12}|\s+$", text):
                await asyncio.sleep(speech.pause_s)
                num_tokens += 1
                yield kind(0, piece)
        if speech.fails is not None:
            raise EngineFailed(speech.fails)
        yield Finished(0, "stop", None, num_tokens)
        yield Completed(Usage(NUM_PROMPT_TOKENS, num_tokens), Timings(0.0, 0.0, 0.0, 0.0))


def _asked(request: GenerateRequest) -> str:
    [prompt] = request.prompts
    return (prompt.messages[-1].text or "") if isinstance(prompt, ChatPrompt) else ""
