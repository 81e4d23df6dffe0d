"""The engine's door: takes a request, answers with events. Knows nothing of HTTP.

Importing this module does not import MLX; the device thread does, once it runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.embedding import (
    EmbeddingRequest,
    EmbeddingResult,
    ScoreRequest,
    ScoreResult,
)
from maxi_mlx.core.errors import MaxiError, Overloaded, Unavailable
from maxi_mlx.core.events import Event, Started, TextDelta
from maxi_mlx.core.models import ABILITIES, ModelEntry
from maxi_mlx.core.request import GenerateRequest, TextPrompt
from maxi_mlx.core.settings import Settings
from maxi_mlx.core.transcription import TranscriptionEvent, TranscriptionRequest
from maxi_mlx.engine.admission import check_memory, make_jobs
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.generation import Generation
from maxi_mlx.engine.language_loading import LanguageHandle
from maxi_mlx.engine.lending import Lender
from maxi_mlx.engine.mailbox import Mailbox
from maxi_mlx.engine.model_pool import ModelPool
from maxi_mlx.engine.model_slot import Hold
from maxi_mlx.engine.naming import EMBEDDERS, LISTENERS, SCORERS, WRITERS, Kinds, ModelNames
from maxi_mlx.engine.row import PromptJob
from maxi_mlx.engine.snapshot import loaded_models
from maxi_mlx.engine.speech.transcription import transcribe
from maxi_mlx.engine.status import EngineState, EngineStatus
from maxi_mlx.kv_cache.disk.folder import default_folder
from maxi_mlx.kv_cache.disk.tier import DiskTier

if TYPE_CHECKING:
    from maxi_mlx.engine.vectors.requests import Vectors
    from maxi_mlx.text.vocabulary import Vocabulary

T = TypeVar("T")


class Engine:
    """Owns the device thread and the model pool. All methods run on the event loop."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._settings = settings
        self._disk: DiskTier | None = None
        self._device = DeviceThread(settings)
        self._pool = ModelPool(settings, self._device)
        self._names = ModelNames(settings, catalog, self._pool)
        self._lender = Lender(settings, self._pool)
        # Their own, so that a template that takes for ever keeps nobody from the catalog.
        self._prompt_threads = ThreadPoolExecutor(4, thread_name_prefix="prompts")
        # Few, as decoding a long recording or large images is hard work.
        self._media_threads = ThreadPoolExecutor(2, thread_name_prefix="media")
        self._preparing: asyncio.Task[None] | None = None
        self._loading_first: asyncio.Task[None] | None = None
        self._fault: str | None = None
        self._draining = False
        self._num_active = 0
        self._num_waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._now_s = time.monotonic

    async def start(self) -> None:
        """Starts the device thread; MLX and ``settings.model`` come in the background."""
        self._disk = await asyncio.to_thread(_start_disk_tier, self._settings)
        loop = asyncio.get_running_loop()
        self._now_s = loop.time
        self._device.start(loop, self._disk)
        self._preparing = asyncio.create_task(self._device.prepare())
        self._loading_first = asyncio.create_task(self._load_first())

    async def wait_ready(self) -> None:
        """Waits until MLX is there and ``settings.model`` is loaded. Raises what prevented it."""
        assert self._loading_first is not None, "the engine was not started"
        await asyncio.shield(self._loading_first)

    async def _load_first(self) -> None:
        assert self._preparing is not None
        try:
            await asyncio.shield(self._preparing)
            if self._settings.model is not None:
                await self._hold(self._settings.model, "kept")
            for name in (*self._settings.pins, *await self._names.pinned_by_settings()):
                await self._hold(name, "pinned")
        except Exception as error:
            self._fault = error.message if isinstance(error, MaxiError) else repr(error)
            raise

    async def _hold(self, name: str, hold: Hold) -> None:
        entry = await self._names.resolve(name, tuple(ABILITIES))
        self._pool.hold(entry, hold)
        async with self._lender.any_kind(entry):
            pass

    async def drain(self, timeout_s: float) -> bool:
        """Refuses new requests and waits for the running ones; False if time ran out."""
        self._draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self._draining = True
        tasks = [task for task in (self._preparing, self._loading_first) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pool.close()
        self._prompt_threads.shutdown(wait=False, cancel_futures=True)
        self._media_threads.shutdown(wait=False, cancel_futures=True)
        await self._device.stop()
        if self._disk is not None:
            await asyncio.to_thread(self._disk.close)

    def status(self) -> EngineStatus:
        reading = self._device.reading
        faults = [figures.fault for figures in reading.models.values() if figures.fault]
        return EngineStatus(
            state=self._state(),
            fault=self._fault or self._device.fault or (faults[0] if faults else None),
            num_running=self._num_active - self._num_waiting,
            num_waiting=self._num_waiting,
            loaded=loaded_models(self._pool.slots, reading, self._disk, now_s=self._now_s()),
            histories=self._pool.histories,
            kv_cache_bytes=sum(f.kv_cache_bytes for f in reading.models.values()),
            prefixes=reading.prefixes,
            prefix_limit_bytes=reading.prefix_limit_bytes,
            disk=self._disk.stats if self._disk is not None else None,
            memory=reading.memory,
            process_bytes=reading.process_bytes,
        )

    @property
    def is_alive(self) -> bool:
        """Whether the device thread runs, if only to its end."""
        return self._device.fault is None

    async def answers_within(self, timeout_s: float) -> bool:
        """Whether the device thread does what it is told, which the snapshot can't say."""
        return await self._device.answers_within(timeout_s)

    def _state(self) -> EngineState:
        if self._draining:
            return "draining"
        if self._fault is not None or self._device.fault is not None:
            return "failed"
        if self._loading_first is None or not self._loading_first.done():
            return "starting"
        return "ready"

    # -- generating --------------------------------------------------------------------------

    async def generate(
        self, request: GenerateRequest, *, keep_alive_s: float | None = None
    ) -> AsyncGenerator[Event, None]:
        """Answers a request: `Started` first, `Completed` or `Failed` last. ``keep_alive_s`` is how
        long the model then stays with nothing to do; None: as it was.

        Raises a MaxiError before the first event when the request is refused. Closing the
        iterator frees the request's rows at the next step.
        """
        arrived_s = time.monotonic()
        async with self._place() as begin:
            entry = await self._names.writer_for(request)
            await self._wait_prepared()
            async with self._lender.language(entry, keep_alive_s) as handle:
                run = self._run(request, handle, arrived_s=arrived_s, on_begin=begin)
                async with aclosing(run):
                    async for event in run:
                        yield event

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[Callable[[], None]]:
        """A request's place among those that wait; what is given is to be called when it runs.
        Raises Overloaded or Unavailable where there is none."""
        self._check_door()
        waiting = True
        self._num_active += 1
        self._num_waiting += 1
        self._idle.clear()

        def begin() -> None:
            nonlocal waiting
            waiting = False
            self._num_waiting -= 1

        try:
            yield begin
        finally:
            self._num_active -= 1
            if waiting:
                self._num_waiting -= 1
            if not self._num_active:
                self._idle.set()

    # -- vectors -----------------------------------------------------------------------------

    async def embed(
        self, request: EmbeddingRequest, *, keep_alive_s: float | None = None
    ) -> EmbeddingResult:
        """A vector for each input. Raises a MaxiError; a caller that is cancelled takes what is
        left of its inputs off the device. ``keep_alive_s`` as in `generate`."""
        arrived_s = time.monotonic()
        async with self._vectors(request.model, EMBEDDERS, keep_alive_s) as vectors:
            load_s = time.monotonic() - arrived_s
            return replace(await vectors.embed(request), load_s=load_s)

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """A score for each document, by a reranker or by the vectors of an embedding model.
        Raises a MaxiError."""
        async with self._vectors(request.model, SCORERS) as vectors:
            return await vectors.score(request)

    @asynccontextmanager
    async def _vectors(
        self, name: str, kinds: Kinds, keep_alive_s: float | None = None
    ) -> AsyncIterator[Vectors]:
        async with self._place() as begin:
            entry = await self._names.resolve(name, kinds)
            await self._wait_prepared()
            # Only now: it needs numpy, which the device thread has loaded meanwhile.
            from maxi_mlx.engine.vectors.requests import Vectors

            async with self._lender.vectors(entry, keep_alive_s) as handle:
                yield Vectors(handle, self._device, self._prompt_threads, begin)

    # -- models ------------------------------------------------------------------------------

    async def load(self, name: str, *, keep_alive_s: float | None = None) -> str:
        """Loads a model of whatever kind, and gives its id. ``keep_alive_s`` as in `generate`."""
        self._check_not_draining()
        # A request without a name means what writes: of other kinds, one has to be named.
        entry = await self._names.resolve(name, tuple(ABILITIES) if name.strip() else WRITERS)
        await self._wait_prepared()
        async with self._lender.any_kind(entry, keep_alive_s):
            return entry.id

    async def unload(self, name: str) -> str:
        """Unloads a model once nobody uses it, and gives its id; one not loaded stays so."""
        self._check_not_draining()
        entry = await self._names.resolve(name, tuple(ABILITIES))
        await self._pool.unload(entry)
        return entry.id

    async def release(self, entry: ModelEntry) -> None:
        """Unloads a model whose files are to go. Raises InvalidRequest for one that is in use."""
        await self._pool.release(entry.path)

    # -- speech ------------------------------------------------------------------------------

    async def transcribe(
        self, request: TranscriptionRequest
    ) -> AsyncGenerator[TranscriptionEvent, None]:
        """Writes a recording down: `TranscriptionStarted` first, `Transcribed` or `Failed` last.

        Raises a MaxiError before the first event when the request is refused. Closing the
        iterator takes the recording off the device within a slice.
        """
        async with self._place() as begin:
            entry = await self._names.resolve(request.model, LISTENERS)
            await self._wait_prepared()
            async with self._lender.speech(entry) as handle:
                run = transcribe(
                    request,
                    handle,
                    device=self._device,
                    threads=self._media_threads,
                    on_begin=begin,
                )
                async with aclosing(run):
                    async for event in run:
                        yield event

    # -- prompts -----------------------------------------------------------------------------

    async def count_tokens(self, request: GenerateRequest) -> int:
        """How many tokens the request's prompts have, as `generate` would read them. Loads the
        model if need be, and asks nothing else of the device."""
        self._check_not_draining()
        entry = await self._names.writer_for(request)
        await self._wait_prepared()
        async with self._lender.language(entry) as handle:
            return await self._read(request, handle.prompts.count)

    async def _read(self, request: GenerateRequest, read: Callable[[GenerateRequest], T]) -> T:
        threads = self._media_threads if request.images else self._prompt_threads
        return await asyncio.get_running_loop().run_in_executor(threads, read, request)

    async def context_length(self, request: GenerateRequest) -> int | None:
        """How many tokens the model that a request means can hold, if its files say so."""
        return (await self._names.writer_for(request)).context_length

    async def _run(
        self,
        request: GenerateRequest,
        handle: LanguageHandle,
        *,
        arrived_s: float,
        on_begin: Callable[[], None],
    ) -> AsyncGenerator[Event, None]:
        lent_s = time.monotonic()
        model = handle.model
        prompts = await self._read(request, handle.prompts.build)
        token_ids = [prompt.token_ids for prompt in prompts]
        limit_bytes = self._device.limit_bytes
        needed_bytes = check_memory(request, model, token_ids, limit_bytes=limit_bytes)
        await self._pool.make_room(needed_bytes)
        generation = Generation(
            mailbox=Mailbox(),
            vocabulary=model.vocabulary,
            prompt_tokens=sum(map(len, token_ids)),
            answers_per_prompt=request.n,
            arrived_s=arrived_s,
            lent_s=lent_s,
            on_begin=on_begin,
        )
        jobs = make_jobs(request, model, prompts, generation)
        yield Started(model.entry.id, generation.prompt_tokens)
        if request.echo:
            for event in _echoes(request, jobs, model.vocabulary):
                yield event
        events = generation.events()
        try:
            self._device.post(partial(_submit, handle, tuple(jobs)))
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            jobs.clear()  # a traceback may hold this frame, and with it their caches
            for answer in generation.answers:
                answer.row.cancelled = True
            self._device.post(lambda: handle.work.cancel(generation.mailbox))

    def _check_not_draining(self) -> None:
        if self._draining:
            raise Unavailable("The server is shutting down and takes no new requests.")

    def _check_door(self) -> None:
        self._check_not_draining()
        most = self._settings.scheduler.max_waiting_requests
        # Those that just came count as waiting until the device takes them up, which it does at
        # once while there are places.
        num_running = self._num_active - self._num_waiting
        num_places = max(0, self._settings.scheduler.max_running_rows - num_running)
        if self._num_waiting >= most + num_places:
            raise Overloaded(
                f"{self._num_waiting} requests are waiting already, and {most} may. Try again in "
                "a moment."
            )

    async def _wait_prepared(self) -> None:
        """Until MLX is imported. A machine without it answers every request with the reason."""
        assert self._preparing is not None, "the engine was not started"
        try:
            await asyncio.shield(self._preparing)
        except MaxiError as error:
            raise Unavailable(error.message) from error


def _start_disk_tier(settings: Settings) -> DiskTier | None:
    """Where stored prefixes outlive the server; pieces come back by way of memory, so that there
    is no disk without it."""
    if not settings.cache_disk_bytes or settings.cache_memory_bytes == 0:
        return None
    disk = DiskTier(settings.cache_dir or default_folder(), settings.cache_disk_bytes)
    disk.start()
    return disk


def _echoes(
    request: GenerateRequest, jobs: Sequence[PromptJob], vocabulary: Vocabulary
) -> Iterator[Event]:
    """Each answer begins with its prompt."""
    for job, prompt in zip(jobs, request.prompts, strict=True):
        given = prompt.text if isinstance(prompt, TextPrompt) else None
        text = vocabulary.text(job.token_ids) if given is None else given
        for row in job.rows:
            yield TextDelta(row.choice, text)


def _submit(handle: LanguageHandle, jobs: Sequence[PromptJob]) -> None:
    for job in jobs:
        handle.work.submit(job)
