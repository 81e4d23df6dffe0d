"""The file that keeps responses: SQLite, under a limit of size and one of age.

    responses    one row a response: its body, its own input, which response it went on from
    items        where each item is found by its id

Readable by this user alone, since it holds what was prompted. Several processes may share it. Lives
on one thread, whoever's that is; what is wrong with the file comes out as sqlite3.Error or OSError.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

_VERSION = 1
_BUSY_S = 5.0
_EVICTED_AT_ONCE = 16
_MAX_WAL_BYTES = 4 * 2**20

# Before the first table: it can't be changed later. Pages that go are given back to the disk.
_BEFORE = "PRAGMA auto_vacuum = FULL"
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # outlives the process; a power cut may cost the last ones
    f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}",
    "PRAGMA secure_delete = ON",  # what is deleted is to be gone
    "PRAGMA foreign_keys = ON",
)
_TABLES = """
CREATE TABLE responses (
    id TEXT PRIMARY KEY, previous_id TEXT, used_s REAL NOT NULL, body BLOB NOT NULL,
    input BLOB NOT NULL
);
CREATE INDEX responses_used ON responses (used_s);
CREATE TABLE items (
    id TEXT NOT NULL, response_id TEXT NOT NULL REFERENCES responses ON DELETE CASCADE
);
CREATE INDEX items_id ON items (id);
CREATE INDEX items_response ON items (response_id);
"""
_CHAIN = """
WITH RECURSIVE chain (id, previous_id, place) AS (
    SELECT id, previous_id, 0 FROM responses WHERE id = ?
    UNION ALL
    SELECT r.id, r.previous_id, place + 1 FROM responses r JOIN chain c ON r.id = c.previous_id
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """A response as it was sent, and its own input, without what stood before it."""

    id: str
    previous_id: str | None
    body: Mapping[str, Any]
    input_items: Sequence[Mapping[str, Any]]

    @property
    def items(self) -> list[Mapping[str, Any]]:
        """What was said: its input, then its output."""
        return [*self.input_items, *self.body["output"]]


class ResponseFile:
    """``path`` is made with the first response that is saved. ``max_age_s`` counts from the last
    time that something went on from a response."""

    def __init__(self, path: Path, *, limit_bytes: int, max_age_s: float) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._max_age_s = max_age_s
        self._connection: sqlite3.Connection | None = None

    def save(self, response: KeptResponse, *, now_s: float) -> bool:
        """False where it alone is larger than the limit, and so is not kept."""
        body = msgspec.json.encode(response.body)
        own_input = msgspec.json.encode(response.input_items)
        if len(body) + len(own_input) > self._limit_bytes // 2:
            return False
        row = (response.id, response.previous_id, now_s, body, own_input)
        item_rows = [(item["id"], response.id) for item in response.items]
        with self._change(makes=True) as connection:
            connection.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?)", row)
            connection.executemany("INSERT INTO items VALUES (?, ?)", item_rows)
            oldest_s = now_s - self._max_age_s
            connection.execute("DELETE FROM responses WHERE used_s < ?", (oldest_s,))
            self._evict(connection)
        return True

    def get(self, id: str) -> KeptResponse | None:
        query = "SELECT id, previous_id, body, input FROM responses WHERE id = ?"
        return next(self._read(query, id), None)

    def chain(self, id: str) -> list[KeptResponse] | None:
        """The response and all that it went on from, the oldest first; None where one of them is
        no longer there."""
        query = _CHAIN + (
            "SELECT r.id, r.previous_id, r.body, r.input FROM chain c JOIN responses r USING (id) "
            "ORDER BY c.place DESC"
        )
        found = list(self._read(query, id))
        return found if found and found[0].previous_id is None else None

    def touch(self, id: str, *, now_s: float) -> None:
        """The response and all that it went on from are in use."""
        with self._change() as connection:
            query = _CHAIN + "UPDATE responses SET used_s = ? WHERE id IN (SELECT id FROM chain)"
            connection.execute(query, (id, now_s))

    def items(self, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Those of the items that are there; of several with one id, the latest."""
        found: dict[str, Mapping[str, Any]] = {}
        query = (
            "SELECT id, previous_id, body, input FROM responses WHERE id = "
            "(SELECT response_id FROM items WHERE id = ? ORDER BY rowid DESC LIMIT 1)"
        )
        for id in ids:
            for response in self._read(query, id):
                found.update((item["id"], item) for item in response.items if item["id"] == id)
        return found

    def delete(self, id: str) -> bool:
        if self._connect(makes=False) is None:
            return False
        with self._change() as connection:
            return connection.execute("DELETE FROM responses WHERE id = ?", (id,)).rowcount > 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def set_aside(self) -> None:
        """Takes a file that can't be read out of the way, for a new one to be begun."""
        self.close()
        os.replace(self._path, self._path.with_name(f"{self._path.name}.unreadable"))
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(f"{self._path}{suffix}")

    # -- the connection ------------------------------------------------------------------------

    def _read(self, query: str, id: str) -> Iterator[KeptResponse]:
        connection = self._connect(makes=False)
        if connection is None:
            return
        for own_id, previous_id, body, own_input in connection.execute(query, (id,)).fetchall():
            yield KeptResponse(
                id=own_id,
                previous_id=previous_id,
                body=msgspec.json.decode(body),
                input_items=msgspec.json.decode(own_input),
            )

    @contextmanager
    def _change(self, *, makes: bool = False) -> Iterator[sqlite3.Connection]:
        connection = self._connect(makes=makes)
        assert connection is not None, "there is no file to change"
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _connect(self, *, makes: bool) -> sqlite3.Connection | None:
        if self._connection is not None and os.path.exists(self._path):
            return self._connection
        self.close()  # somebody removed the file: what the connection holds is nowhere
        if not makes and not os.path.exists(self._path):
            return None
        os.makedirs(self._path.parent, exist_ok=True)
        # SQLite gives its other files the rights of this one.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        os.chmod(self._path, 0o600)
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Those go first that were not used for the longest time."""
        while _num_bytes(connection) > self._limit_bytes:
            connection.execute(
                "DELETE FROM responses WHERE id IN "
                "(SELECT id FROM responses ORDER BY used_s LIMIT ?)",
                (_EVICTED_AT_ONCE,),
            )


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(_BEFORE)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("COMMIT")
    if version not in (0, _VERSION):
        raise sqlite3.DatabaseError(f"it is of version {version}, not {_VERSION}")


def _num_bytes(connection: sqlite3.Connection) -> int:
    """What the responses take, whether or not the file has shrunk yet."""
    num_pages, num_free, page_bytes = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((num_pages - num_free) * page_bytes)
