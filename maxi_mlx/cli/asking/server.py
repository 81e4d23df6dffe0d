"""The server that a command asks: the running one, else one of its own that ends with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.cli.asking.notice import notice_on
from maxi_mlx.cli.asking.own_server import OwnServer
from maxi_mlx.cli.options import arguments_of, check_folders, settings_of, settings_options
from maxi_mlx.cli.running_server import find_running_server

Command = TypeVar("Command", bound=Callable[..., Any])

_HELP = {
    "port": "The server's port (11434); where none runs, one is started.",
    "model_dir": "Models are here as well, for a server that is started.",
    "config": "Settings in TOML, as for serve.",
}


def server_options(command: Command) -> Command:
    """Those that say which server, as far as `serve` has them too."""
    return settings_options("port", "model_dir", words=_HELP)(command)


class AskedServer:
    """Used by the command's main thread alone. Leaving the ``with`` block ends what it started."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self.settings = settings_of(dict(flags))
        check_folders(self.settings)
        self._arguments = arguments_of(flags)
        self._own: OwnServer | None = None
        self._own_connection: Connection | None = None

    def __enter__(self) -> AskedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_own()

    def connection(self) -> Connection:
        """To the server that there is now: one that has ended meanwhile is replaced."""
        if self._own is not None and self._own.is_running and self._own_connection is not None:
            return self._own_connection
        return find_running_server(self.settings) or self._started()

    def _started(self) -> Connection:
        self._end_own()
        with notice_on(sys.stderr, lambda: "Starting a server"):
            self._own = OwnServer(self._arguments)
            self._own_connection = self._own.connection()
        return self._own_connection

    def _end_own(self) -> None:
        if self._own is not None:
            self._own.close()
        self._own = None
