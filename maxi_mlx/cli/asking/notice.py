"""A line at a terminal that says what is waited for, once that takes longer than a second."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.cli.asking.inert import inert
from maxi_mlx.cli.progress import duration_text
from maxi_mlx.cli.terminal import Paint, size_text
from maxi_mlx.core.errors import NoAnswer

PATIENCE_S = 1.0
REDRAW_S = 0.5


class Notice:
    """Owns a thread that draws, until `close`; then the line is gone. Nothing in a pipe."""

    def __init__(self, stream: TextIO, words: Callable[[], str]) -> None:
        self._stream = stream
        self._words = words
        self._began_s = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        if stream.isatty() and os.environ.get("TERM") != "dumb":
            self._thread.start()

    def close(self) -> None:
        """Before anything else is written; a second time it does nothing."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _show(self) -> None:
        paint = Paint.on(self._stream)
        wait_s, is_shown = PATIENCE_S, False
        while not self._is_over.wait(wait_s):
            words = f"{inert(self._words())}  {duration_text(time.monotonic() - self._began_s)}"
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{paint(words[:width], 'bright_black')}")
            self._stream.flush()
            wait_s, is_shown = REDRAW_S, True
        if is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def notice_on(stream: TextIO, words: Callable[[], str]) -> Iterator[Notice]:
    notice = Notice(stream, words)
    try:
        yield notice
    finally:
        notice.close()


def waiting_words(connection: Connection) -> Callable[[], str]:
    """What the server is at, asked of it each time."""

    def words() -> str:
        try:
            engine = connection.get("/health").get("engine", {})
        except NoAnswer:  # the answer itself will tell
            return "Waiting"
        return _loading(engine) or "Waiting for the first word"

    return words


def _loading(engine: Mapping[str, Any]) -> str | None:
    models = engine.get("loaded", [])
    for model in models:
        if model["state"] == "loading":
            size = model["weight_bytes"]
            others = sum(each["weight_bytes"] for each in models if each["state"] == "ready")
            active = (engine["memory"] or {}).get("active_bytes", 0)
            loaded = min(max(0, active - others), size)
            return f"Loading {model['id']}: {size_text(loaded)} of {size_text(size)}"
    return None
