"""A server as `maxi-mlx serve` builds it, on a port of its own, and a client for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from aiohttp import web
from yarl import URL

from maxi_mlx.catalog.catalog import Catalog, Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server.app import create_app
from maxi_mlx.server.serve import make_runner


@dataclass(frozen=True)
class Answer:
    """A whole answer: what a client has when the server is done."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, which has to have OpenAI's four keys and nothing else."""
        assert set(self.json) == {"error"}
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        return dict(error)


@dataclass(frozen=True)
class Client:
    """Talks to one server. ``engine`` is the one behind it."""

    app: web.Application
    engine: Engine
    port: int
    session: aiohttp.ClientSession

    async def send(self, method: str, path: str, **more: Any) -> Answer:
        # The path goes out as it is written here: its slashes and escapes are what is tested.
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self.session.request(method, url, **more) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.send("GET", path, **more)

    async def post(self, path: str, **more: Any) -> Answer:
        return await self.send("POST", path, **more)

    async def raw(self, *pieces: bytes, within_s: float = 30) -> bytes:
        """What the server sends until it closes the connection, or for so long."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.05)
        received = b""
        try:
            async with asyncio.timeout(within_s):
                while piece := await reader.read(65536):
                    received += piece
        except (TimeoutError, ConnectionError):
            pass
        writer.close()
        return received


class Start(Protocol):
    async def __call__(
        self,
        settings: Settings = ...,
        *roots: Root,
        prepare: Callable[[web.Application], None] | None = None,
        make_engine: Callable[[Settings, Catalog], Engine] = ...,
    ) -> Client: ...


@asynccontextmanager
async def started() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(
            settings: Settings | None = None,
            *roots: Root,
            prepare: Callable[[web.Application], None] | None = None,
            make_engine: Callable[[Settings, Catalog], Engine] = Engine,
        ) -> Client:
            settings = settings or Settings()
            adapter_dirs = settings.adapter_dirs
            catalog = Catalog(roots, settings.models, adapter_dirs=adapter_dirs)
            engine = make_engine(settings, catalog)
            app = create_app(settings, engine, catalog)
            if prepare is not None:
                prepare(app)
            runner = make_runner(app)
            stack.push_async_callback(runner.cleanup)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Client(app, engine, site.port, session)

        yield start
