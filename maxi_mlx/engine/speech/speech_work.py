"""A speech model's share of the device: recordings take turns, a window each, in short slices.

Lives on the device thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from operator import is_

from maxi_mlx.core.errors import EngineFailed, MaxiError
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.device_work import WorkFigures
from maxi_mlx.engine.mailbox import FaultNews, Outbox
from maxi_mlx.engine.speech.news import WindowNews
from maxi_mlx.engine.speech.speech_job import SpeechJob
from maxi_mlx.engine.speech.speech_model import SpeechModel

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Running:
    """A job, and how far its work has come."""

    job: SpeechJob
    steps: Generator[WindowNews | None, None, None]


class SpeechWork:
    """Owns the recordings that this model writes down, and closes them when they are done."""

    def __init__(self, model: SpeechModel) -> None:
        self.model = model
        self.fault: str | None = None
        self._running: deque[_Running] = deque()  # whose turn it is comes first

    @property
    def entry(self) -> ModelEntry:
        return self.model.entry

    @property
    def has_work(self) -> bool:
        return bool(self._running)

    @property
    def num_decoding(self) -> int:
        return 0

    @property
    def num_wanting(self) -> int:
        # One, so that many recordings take no more of an answer's share than one does.
        return int(bool(self._running))

    @property
    def worthwhile_slice_s(self) -> float:
        return 0.0

    @property
    def is_waiting_for_disk(self) -> bool:
        return False

    def submit(self, job: SpeechJob) -> None:
        self._running.append(_Running(job, job.steps(self.model)))

    def cancel(self, job: SpeechJob) -> None:
        """Forgets a recording, done or not."""
        self._drop(lambda running: running.job is job)
        job.recording.close()

    def prepare(self, outbox: Outbox) -> None:
        """Nothing waits for admission: a recording takes a window's memory, however long it is."""

    def decode(self, outbox: Outbox) -> None:
        """There are no steps."""

    def settle(self, outbox: Outbox) -> None:
        """There are no steps."""

    def read(self, slice_s: float, outbox: Outbox) -> None:
        """Goes on with the first recording; at a window's end the next one has its turn."""
        ends_at_s = time.perf_counter() + slice_s
        while self._running:
            running = self._running[0]
            try:
                news = next(running.steps)
            except Exception as error:
                self._failed(running, error, outbox)
                continue
            if news is not None:
                outbox.append((running.job.mailbox, news))
                self._running.rotate(-1)
                if news.is_last:
                    self._drop(partial(is_, running))
            if time.perf_counter() >= ends_at_s:
                return

    def guarded(self, work: Callable[[Outbox], None], outbox: Outbox) -> None:
        try:
            work(outbox)
        except BaseException as error:  # a panic of a native library is no Exception
            logger.exception("%s: the engine failed", self.entry.id)
            self.fault = f"{type(error).__name__}: {error}"
            message = f"The engine failed: {error}"
            self.fail_all(lambda: EngineFailed(message), outbox)

    def fail_all(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        for running in self._running:
            outbox.append((running.job.mailbox, FaultNews(make_error())))
        self._drop(lambda _: True)

    @property
    def promised_bytes(self) -> int:
        return 0

    @property
    def newest_s(self) -> float | None:
        return max((running.job.arrived_s for running in self._running), default=None)

    def fail_newest(self, make_error: Callable[[], MaxiError], outbox: Outbox) -> None:
        newest = max(self._running, key=lambda running: running.job.arrived_s)
        outbox.append((newest.job.mailbox, FaultNews(make_error())))
        self._drop(partial(is_, newest))

    def figures(self) -> WorkFigures:
        return WorkFigures(
            num_running=min(1, len(self._running)),
            num_waiting=max(0, len(self._running) - 1),
            fault=self.fault,
        )

    def close(self) -> None:
        self._drop(lambda _: True)

    def _failed(self, running: _Running, error: Exception, outbox: Outbox) -> None:
        """What one recording raises ends it alone."""
        logger.error("%s: a window failed", running.job.request_id, exc_info=error)
        message = f"The model failed on this recording: {error}"
        outbox.append((running.job.mailbox, FaultNews(EngineFailed(message))))
        self._drop(partial(is_, running))

    def _drop(self, is_meant: Callable[[_Running], bool]) -> None:
        meant = [running for running in self._running if is_meant(running)]
        for running in meant:
            self._running.remove(running)
            running.steps.close()
            running.job.recording.close()
