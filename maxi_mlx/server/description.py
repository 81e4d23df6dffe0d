"""The document of what this server serves, in OpenAPI's form."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

import maxi_mlx
from maxi_mlx.api.openapi import Documented, document


class Description:
    """The document, made when it is first asked for, and kept. Lives on the event loop."""

    def __init__(self, routes: Iterable[Documented], *, has_keys: bool) -> None:
        self._routes = tuple(routes)
        self._has_keys = has_keys
        self._body: bytes | None = None

    async def body(self) -> bytes:
        if self._body is None:
            self._body = await asyncio.to_thread(self._made)
        return self._body

    def _made(self) -> bytes:
        made = document(self._routes, version=maxi_mlx.__version__, has_keys=self._has_keys)
        return msgspec.json.encode(made)
