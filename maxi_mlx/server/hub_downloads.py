"""Models on their way from the hub: one download each, however many wait for it.

    pull ─┐                                   ┌─ lines ─► pull
    pull ─┴─► Download ─► a thread of its own ─┴─ lines ─► pull

The last one who leaves ends it; what came until then is kept, and taken up by the next.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from maxi_mlx.catalog.pull.hub.repository import Repository
from maxi_mlx.core.errors import MaxiError
from maxi_mlx.server.line_progress import LineProgress, Step

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Download:
    """``is_wanted`` is read on the download's thread; the rest lives on the loop."""

    repository: Repository
    is_wanted: bool = True
    last: bytes | None = None  # for whoever comes in the middle
    listeners: set[asyncio.Queue[Step]] = field(default_factory=set)


class HubDownloads:
    """Lives on the event loop."""

    def __init__(self) -> None:
        self._running: dict[Repository, Download] = {}

    @contextmanager
    def following(self, repository: Repository) -> Iterator[asyncio.Queue[Step]]:
        """What is told of the model's download, which begins now if it hasn't."""
        download = self._running.get(repository)
        if download is None:
            download = self._begun(repository)
        steps: asyncio.Queue[Step] = asyncio.Queue()
        if download.last is not None:
            steps.put_nowait(download.last)
        download.listeners.add(steps)
        try:
            yield steps
        finally:
            download.listeners.discard(steps)
            if not download.listeners:
                download.is_wanted = False
                self._forget(download)

    def _begun(self, repository: Repository) -> Download:
        download = self._running[repository] = Download(repository)
        loop = asyncio.get_running_loop()

        def tell(step: Step) -> None:
            with suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(self._tell, download, step)

        # A daemon, so that a download doesn't hold up the server's end. What it has is kept.
        threading.Thread(target=partial(_run, download, tell), name="pull", daemon=True).start()
        return download

    def _tell(self, download: Download, step: Step) -> None:
        if isinstance(step, bytes):
            download.last = step
        else:
            self._forget(download)
        for steps in download.listeners:
            steps.put_nowait(step)

    def _forget(self, download: Download) -> None:
        if self._running.get(download.repository) is download:
            del self._running[download.repository]


def _run(download: Download, tell: Callable[[Step], None]) -> None:
    from maxi_mlx.catalog.pull.hub.pulling import pull_repository
    from maxi_mlx.catalog.pull.hub.transfer import Abandoned

    repository = download.repository
    try:
        pulled = pull_repository(
            repository,
            LineProgress(tell),
            label="pulling {commit}",
            is_wanted=lambda: download.is_wanted,
        )
    except Abandoned:
        logger.info("fetching %s ended: nobody waits for it; what came is kept", repository)
        return
    except MaxiError as error:
        tell(error)
        return
    except Exception:
        logger.exception("fetching %s failed", repository)
        tell(MaxiError(f"{repository} could not be fetched. The server's log says why."))
        return
    logger.info("fetched %s to %s", repository, pulled.folder)
    tell(None)
