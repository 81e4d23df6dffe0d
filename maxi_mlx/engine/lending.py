"""Lends models of every kind from the pool, each loaded by its own loader.

Lives on the event loop; imports nothing that a kind needs before one of them is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.language_loading import LanguageHandle, load_language
from maxi_mlx.engine.loading import Handle
from maxi_mlx.engine.model_pool import ModelPool
from maxi_mlx.engine.naming import LISTENERS, WRITERS
from maxi_mlx.engine.speech.loading import SpeechHandle, import_speech_packages, load_speech
from maxi_mlx.engine.vectors.loading import (
    VectorHandle,
    load_vector_model,
    require_vector_packages,
)


class Lender:
    """``keep_alive_s`` is how long a model stays after its last use; None: as it was."""

    def __init__(self, settings: Settings, pool: ModelPool) -> None:
        self._pool = pool
        self._load_language = partial(load_language, settings=settings)

    def language(
        self, entry: ModelEntry, keep_alive_s: float | None = None
    ) -> AbstractAsyncContextManager[LanguageHandle]:
        return self._pool.lend(entry, self._load_language, keep_alive_s=keep_alive_s)

    @asynccontextmanager
    async def vectors(
        self, entry: ModelEntry, keep_alive_s: float | None = None
    ) -> AsyncIterator[VectorHandle]:
        await asyncio.to_thread(require_vector_packages, entry)
        async with self._pool.lend(entry, load_vector_model, keep_alive_s=keep_alive_s) as handle:
            yield handle

    @asynccontextmanager
    async def speech(
        self, entry: ModelEntry, keep_alive_s: float | None = None
    ) -> AsyncIterator[SpeechHandle]:
        await asyncio.to_thread(import_speech_packages)
        async with self._pool.lend(entry, load_speech, keep_alive_s=keep_alive_s) as handle:
            yield handle

    def any_kind(
        self, entry: ModelEntry, keep_alive_s: float | None = None
    ) -> AbstractAsyncContextManager[Handle]:
        if entry.kind in WRITERS:
            return self.language(entry, keep_alive_s)
        if entry.kind in LISTENERS:
            return self.speech(entry, keep_alive_s)
        return self.vectors(entry, keep_alive_s)
