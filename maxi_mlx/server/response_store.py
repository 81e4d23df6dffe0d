"""Keeps responses, for `previous_response_id` and for whoever fetches them later.

The file has a thread of its own: nothing here blocks the event loop. Whatever is wrong with the
file costs what it keeps, and one warning; answers go out all the same.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from maxi_mlx.catalog.roots import home_models_dir
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.response_file import KeptResponse, ResponseFile

logger = logging.getLogger(__name__)

FILE_NAME = "responses.sqlite"
DAY_S = 24 * 3600.0
_NOT_A_DATABASE = ("SQLITE_NOTADB", "SQLITE_CORRUPT")

T = TypeVar("T")


class ResponseStore:
    """Lives on the event loop. With ``settings.store`` off it keeps nothing and finds nothing."""

    def __init__(self, settings: Settings) -> None:
        self.is_on = settings.store and settings.store_bytes > 0
        self._limit_bytes = settings.store_bytes
        self._max_age_s = settings.store_days * DAY_S
        self._own_file: ResponseFile | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="responses")
        self._warned: set[str] = set()

    @property
    def _file(self) -> ResponseFile:
        """On the file's thread: where a folder is, is asked of the file system."""
        if self._own_file is None:
            self._own_file = ResponseFile(
                home_models_dir().parent / FILE_NAME,
                limit_bytes=self._limit_bytes,
                max_age_s=self._max_age_s,
            )
        return self._own_file

    async def save(self, response: KeptResponse) -> None:
        def save() -> bool:
            return self._file.save(response, now_s=time.time())

        if await self._do(save, otherwise=True) is False:
            logger.warning("the response %s is too large to be kept", response.id)

    async def get(self, id: str) -> KeptResponse | None:
        return await self._do(lambda: self._file.get(id), otherwise=None)

    async def chain(self, id: str) -> Sequence[KeptResponse] | None:
        """The response and all before it, the oldest first, which now count as used; None where
        it, or one of those before it, isn't there."""

        def chain() -> list[KeptResponse] | None:
            found = self._file.chain(id)
            if found is not None:
                self._file.touch(id, now_s=time.time())
            return found

        return await self._do(chain, otherwise=None)

    async def items(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        nothing: Mapping[str, Mapping[str, Any]] = {}
        return await self._do(lambda: self._file.items(ids), otherwise=nothing) if ids else nothing

    async def delete(self, id: str) -> bool:
        return await self._do(lambda: self._file.delete(id), otherwise=False)

    async def close(self) -> None:
        if self._own_file is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._own_file.close)
        self._thread.shutdown(wait=False)

    async def _do(self, work: Callable[[], T], *, otherwise: T) -> T:
        if not self.is_on:
            return otherwise
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._tried, work, otherwise)

    def _tried(self, work: Callable[[], T], otherwise: T) -> T:
        """On the file's thread."""
        try:
            try:
                return work()
            except sqlite3.DatabaseError as error:
                if not _is_unreadable(error):
                    raise
                self._warn(f"it can't be read ({error}), and is set aside")
                self._file.set_aside()
                return work()
        except (sqlite3.Error, OSError, ValueError) as error:
            self._warn(f"it can't be used: {error}")
            return otherwise

    def _warn(self, words: str) -> None:
        if words not in self._warned:
            self._warned.add(words)
            logger.warning("the file of kept responses (%s): %s", FILE_NAME, words)


def _is_unreadable(error: sqlite3.DatabaseError) -> bool:
    """Broken, or written by another version; not just busy, full or forbidden."""
    name = getattr(error, "sqlite_errorname", None)
    return name is None or name.startswith(_NOT_A_DATABASE)
