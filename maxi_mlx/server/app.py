"""Puts the server together: routes, middlewares, and what the application owns."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from aiohttp import web

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server import keys
from maxi_mlx.server.access_log import recording
from maxi_mlx.server.auth import authentication
from maxi_mlx.server.description import Description
from maxi_mlx.server.errors import error_rendering
from maxi_mlx.server.feeds import Feeds
from maxi_mlx.server.guard import add_headers, guard
from maxi_mlx.server.hub_downloads import HubDownloads
from maxi_mlx.server.metrics_registry import Metrics
from maxi_mlx.server.origins import OriginPolicy
from maxi_mlx.server.page_files import PageFiles
from maxi_mlx.server.response_runs import ResponseRuns
from maxi_mlx.server.response_store import ResponseStore
from maxi_mlx.server.routes import DOCUMENTED, ROUTES, TABLE
from maxi_mlx.server.running import RunningRequests
from maxi_mlx.server.stream import DEFAULT_KEEP_ALIVE_S
from maxi_mlx.server.watchers import Watchers


def create_app(settings: Settings, engine: Engine, catalog: Catalog) -> web.Application:
    """The application; starts the engine when it starts and closes it when it ends."""
    app = web.Application(
        client_max_size=settings.max_body_bytes,
        # A request passes them in this order, and its answer in the other.
        middlewares=[recording, error_rendering, guard, authentication],
    )
    app[keys.SETTINGS] = settings
    app[keys.ENGINE] = engine
    app[keys.CATALOG] = catalog
    app[keys.ORIGINS] = OriginPolicy.of(settings)
    app[keys.FEEDS] = Feeds()
    app[keys.RUNNING] = RunningRequests()
    app[keys.WATCHERS] = Watchers()
    app[keys.RESPONSE_STORE] = ResponseStore(settings)
    app[keys.RESPONSE_RUNS] = ResponseRuns()
    app[keys.HUB_DOWNLOADS] = HubDownloads()
    app[keys.DESCRIPTION] = Description(DOCUMENTED, has_keys=bool(settings.api_keys))
    app[keys.PAGE_FILES] = PageFiles()
    app[keys.STARTED_AT] = time.monotonic()
    app[keys.KEEP_ALIVE_S] = DEFAULT_KEEP_ALIVE_S
    app[keys.METRICS] = Metrics(engine)
    app[keys.PROTOCOLS] = {
        made.resource: route.protocol
        for route, made in zip(TABLE, app.add_routes(ROUTES), strict=True)
        if made.resource is not None and route.protocol is not None
    }
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_end_answers)
    app.cleanup_ctx.append(_response_store)
    app.cleanup_ctx.append(_running_engine)
    return app


async def _running_engine(app: web.Application) -> AsyncIterator[None]:
    engine = app[keys.ENGINE]
    await engine.start()
    yield
    await engine.close()


async def _response_store(app: web.Application) -> AsyncIterator[None]:
    yield
    # After the engine has ended, and with it what runs in the background.
    await app[keys.RESPONSE_RUNS].close()
    await app[keys.RESPONSE_STORE].close()


async def _end_answers(app: web.Application) -> None:
    # Before the connections are closed: what is still running ends with an event that says so,
    # instead of a cut.
    app[keys.WATCHERS].end()
    for feed in app[keys.FEEDS]:
        feed.end()
