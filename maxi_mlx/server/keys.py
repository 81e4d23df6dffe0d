"""Where the application and a request keep what belongs to them, as typed keys."""

from __future__ import annotations

from aiohttp import web

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server.description import Description
from maxi_mlx.server.feeds import Feeds
from maxi_mlx.server.hub_downloads import HubDownloads
from maxi_mlx.server.metrics_registry import Metrics
from maxi_mlx.server.origins import OriginPolicy
from maxi_mlx.server.page_files import PageFiles
from maxi_mlx.server.record import RequestRecord
from maxi_mlx.server.response_runs import ResponseRuns
from maxi_mlx.server.response_store import ResponseStore
from maxi_mlx.server.running import RunningRequests
from maxi_mlx.server.watchers import Watchers

SETTINGS = web.AppKey("settings", Settings)
ENGINE = web.AppKey("engine", Engine)
CATALOG = web.AppKey("catalog", Catalog)
ORIGINS = web.AppKey("origins", OriginPolicy)
FEEDS = web.AppKey("feeds", Feeds)
METRICS = web.AppKey("metrics", Metrics)
# Of each resource of the router whose API has a name.
PROTOCOLS = web.AppKey("protocols", dict[web.AbstractResource, str])
RUNNING = web.AppKey("running", RunningRequests)
WATCHERS = web.AppKey("watchers", Watchers)
RESPONSE_STORE = web.AppKey("response_store", ResponseStore)
RESPONSE_RUNS = web.AppKey("response_runs", ResponseRuns)
HUB_DOWNLOADS = web.AppKey("hub_downloads", HubDownloads)
DESCRIPTION = web.AppKey("description", Description)
PAGE_FILES = web.AppKey("page_files", PageFiles)
STARTED_AT = web.AppKey("started_at", float)  # time.monotonic()
KEEP_ALIVE_S = web.AppKey("keep_alive_s", float)

RECORD = web.RequestKey("record", RequestRecord)
