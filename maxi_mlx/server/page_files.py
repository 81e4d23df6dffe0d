"""The files of the web page, which are part of the package. Knows no HTTP."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from importlib.resources import files

from maxi_mlx.core.errors import NotFound

FOLDER = "page"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    body: bytes
    content_type: str
    etag: str


class PageFiles:
    """The page's files, read when one is first asked for, and kept. Lives on the event loop."""

    def __init__(self) -> None:
        self._files: dict[str, PageFile] | None = None

    async def get(self, name: str) -> PageFile:
        if self._files is None:
            self._files = await asyncio.to_thread(_read)
        if name not in self._files:
            raise NotFound(f"The page has no file {name[:80]!r}.")
        return self._files[name]


def _read() -> dict[str, PageFile]:
    found = {}
    for file in (files("maxi_mlx.server") / FOLDER).iterdir():
        content_type = TYPES.get(file.name[file.name.rfind(".") :])
        if content_type is not None:
            body = file.read_bytes()
            etag = hashlib.sha256(body).hexdigest()[:16]
            found[file.name] = PageFile(body=body, content_type=content_type, etag=etag)
    return found
