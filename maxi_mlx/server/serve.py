"""Runs the server: takes the port, serves until asked to stop, drains, ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server.address import BACKLOG, address, listen, tls_context
from maxi_mlx.server.app import create_app
from maxi_mlx.server.http_log import http_logger
from maxi_mlx.server.keys import ENGINE, RUNNING, SETTINGS, WATCHERS

logger = logging.getLogger(__name__)

LAST_WORDS_S = 1.0  # for answers that are complete, or were just ended, to reach their clients
FORCE_S = 2.0  # after which a second interrupt ends the process as it stands
STUCK_S = 20.0  # after a drain's time is over, a process that still has not ended is stuck
FORCED_EXIT_CODE = 130
MAX_HEADER_BYTES = 16 * 1024


class Stop:
    """How far the server has been asked to stop. Lives on the event loop."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        """The first time: finish what is running. The second time: end now."""
        (self.at_once if self.draining.is_set() else self.draining).set()


async def run(
    settings: Settings,
    engine: Engine,
    catalog: Catalog,
    *,
    on_ready: Callable[[str], None],
    stop: Stop | None = None,
) -> None:
    """Serves until a signal (SIGINT, SIGTERM) or `stop` asks for the end.

    ``on_ready`` is called with the server's address once it answers. Raises SetupError when the
    address or the certificate can't be used, before anything is started.
    """
    tls = tls_context(settings)
    sockets = await listen(settings)
    stop = stop or Stop()
    app = create_app(settings, engine, catalog)
    runner = make_runner(app)
    with _signals(stop, settings.drain_timeout_s):
        try:
            await runner.setup()
            for sock in sockets:
                await web.SockSite(runner, sock, ssl_context=tls, backlog=BACKLOG).start()
            on_ready(address(settings, sockets[0]))
            await stop.draining.wait()
            await _drain(app, stop=stop)
        finally:
            await runner.cleanup()
            for sock in sockets:
                sock.close()


def make_runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(
        app,
        access_log=None,
        # Without it a handler that waits would never hear that its client is gone.
        handler_cancellation=True,
        shutdown_timeout=LAST_WORDS_S,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        logger=http_logger(),
    )


async def _drain(app: web.Application, *, stop: Stop) -> None:
    """Lets running answers finish, until the time is up or somebody insists."""
    timeout_s = app[SETTINGS].drain_timeout_s
    running = app[RUNNING]
    # Whoever only watches is not waited for.
    num_running = running.num_running - app[WATCHERS].num_watching
    if num_running:
        logger.info(
            "stopping; requests still running: %d, for at most %g s. "
            "Interrupt again to end at once.",
            num_running,
            timeout_s,
        )

    async def finish() -> None:
        await app[ENGINE].drain(timeout_s)
        await running.none_left.wait()  # the last text may still be on its way to a slow client

    tasks = {asyncio.create_task(finish()), asyncio.create_task(stop.at_once.wait())}
    app[WATCHERS].end()  # the last they see is that the engine drains
    done, pending = await asyncio.wait(
        tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
    )
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()
    if running.num_running:
        logger.warning("requests ended before they were finished: %d", running.num_running)


@contextmanager
def _signals(stop: Stop, drain_timeout_s: float) -> Iterator[None]:
    """Ctrl-C and the terminate signal ask to stop; only the main thread hears of signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    timers: list[threading.Timer] = []

    def ask() -> None:
        # The device may be in the middle of work that can't be broken off, and Python waits for
        # its threads before it ends.
        wait_s = FORCE_S if stop.draining.is_set() else drain_timeout_s + STUCK_S
        force = threading.Timer(wait_s, os._exit, args=(FORCED_EXIT_CODE,))
        force.daemon = True
        force.start()
        timers.append(force)
        stop.ask()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        for timer in timers:
            timer.cancel()
