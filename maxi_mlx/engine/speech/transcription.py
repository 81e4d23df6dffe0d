"""One request on the event loop: from its file to the events that its client sees.

The file is decoded on a worker thread, the windows come from the device thread by a mailbox.
Closing the generator ends both: the decoding within a piece, the model within a slice.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from maxi_mlx.core.events import Failed
from maxi_mlx.core.transcription import (
    SegmentWritten,
    Transcribed,
    TranscriptionEvent,
    TranscriptionProgress,
    TranscriptionRequest,
    TranscriptionStarted,
)
from maxi_mlx.engine.device_thread import DeviceThread
from maxi_mlx.engine.mailbox import FaultNews, Mailbox
from maxi_mlx.engine.speech.loading import SpeechHandle
from maxi_mlx.engine.speech.news import WindowNews

if TYPE_CHECKING:
    from maxi_mlx.engine.speech.speech_job import SpeechJob

logger = logging.getLogger(__name__)

# Of a long recording, the log says how far it is every so many seconds of sound.
_LOGGED_EVERY_S = 300.0


async def transcribe(
    request: TranscriptionRequest,
    handle: SpeechHandle,
    *,
    device: DeviceThread,
    threads: Executor,
    on_begin: Callable[[], None],
) -> AsyncGenerator[TranscriptionEvent, None]:
    """`TranscriptionStarted` first, `Transcribed` or `Failed` last. Raises InvalidRequest before
    the first event."""
    from maxi_mlx.engine.speech.speech_model import language_name

    arrived_s = time.monotonic()
    handle.model.check(request)
    job = await _prepared(request, handle, threads)
    duration_s = job.recording.duration_s
    try:
        yield TranscriptionStarted(handle.model.entry.id, duration_s)
        device.post(partial(handle.work.submit, job))
        logged_s = 0.0
        is_first = True
        while True:
            for news in await job.mailbox.take():
                if isinstance(news, FaultNews):
                    yield Failed(news.error)
                    return
                assert isinstance(news, WindowNews)
                if is_first:
                    is_first = False
                    on_begin()
                for segment in news.segments:
                    yield SegmentWritten(segment)
                if news.is_last:
                    name = language_name(news.language) if news.language is not None else None
                    yield Transcribed(name, duration_s, time.monotonic() - arrived_s)
                    return
                logged_s = _log(request, news, duration_s, logged_s=logged_s)
                yield TranscriptionProgress(news.processed_s, duration_s)
    finally:
        device.post(partial(handle.work.cancel, job))


def _log(
    request: TranscriptionRequest, news: WindowNews, duration_s: float, *, logged_s: float
) -> float:
    """Says how far it is, if it is time to; how far it was when that was last said."""
    if news.processed_s - logged_s < _LOGGED_EVERY_S:
        return logged_s
    logger.info("%s: %.0f of %.0f s heard", request.id, news.processed_s, duration_s)
    return news.processed_s


async def _prepared(
    request: TranscriptionRequest, handle: SpeechHandle, threads: Executor
) -> SpeechJob:
    """The request as work for the device, its whole file decoded."""
    stop = threading.Event()
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(threads, partial(_prepare, request, handle, stop))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        if not future.cancel():
            # The thread still reads the file, which its owner closes after us.
            await asyncio.wait({future})
            if not future.cancelled() and future.exception() is None:
                future.result().recording.close()
        raise


def _prepare(
    request: TranscriptionRequest, handle: SpeechHandle, stop: threading.Event
) -> SpeechJob:
    """Runs on a worker thread."""
    from maxi_mlx.engine.speech.recording import record
    from maxi_mlx.engine.speech.speech_job import SpeechJob
    from maxi_mlx.engine.speech.window import temperatures_from

    model = handle.model
    prompt, keywords = request.prompt or "", ", ".join(request.keywords)
    return SpeechJob(
        mailbox=Mailbox(),
        request_id=request.id,
        task=request.task,
        language=model.language_code(request.language),
        temperatures=temperatures_from(request.temperature),
        wants_words=request.wants_words,
        keywords=model.tokens_of(keywords) if keywords.strip() else (),
        context=model.tokens_of(prompt) if prompt.strip() else [],
        recording=record(request.file, model.filters, stop=stop),
    )
