"""Finds the running server for commands that need one: by --url, or by the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from maxi_mlx.cli import kinds
from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.core.errors import NoAnswer, SetupError
from maxi_mlx.core.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

NO_SERVER = (
    "no server answers at {url}; start one with `maxi-mlx serve`, or say where it is by --url"
)


# What the settings' options say where a command asks the server.
OPTION_WORDS = {
    "port": "The server's port (11434).",
    "api_key": "The server's key, where it needs one.",
    "config": "Settings in TOML, as for serve.",
}


def server_options(command: Command) -> Command:
    """Adds --url and --api-key, which `running_server` takes."""
    key = click.option(
        "--api-key", metavar="KEY", help="The server's key, where it needs one (by the settings)."
    )
    url = click.option(
        "--url", metavar="URL", help="Where the server is (by the settings, this machine)."
    )
    return url(key(command))


def running_server(
    settings: Settings, *, url: str | None = None, api_key: str | None = None
) -> Connection:
    """Raises SetupError where none is running."""
    found = find_running_server(settings, url=url, api_key=api_key)
    if found is None:
        raise SetupError(NO_SERVER.format(url=own_url(settings)))
    return found


def find_running_server(
    settings: Settings, *, url: str | None = None, api_key: str | None = None
) -> Connection | None:
    """The same, and None where none is running. Where a ``url`` is given, there has to be one."""
    from maxi_mlx.server.address import served_at

    key = settings.api_keys[0] if settings.api_keys else None
    if api_key is not None:
        key = _checked_key(api_key)
    if url is not None:
        return _checked(Connection(checked_url(url), api_key=key))
    own = served_at(settings.host, settings.port)
    if own is None:
        return None
    return Connection(own, api_key=key, certificate=settings.tls_cert)


def own_url(settings: Settings) -> str:
    """Where a server of these settings is, or would be."""
    from maxi_mlx.server.address import THIS_MACHINE

    scheme = "https" if settings.tls_cert is not None else "http"
    host = THIS_MACHINE.get(settings.host, settings.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def checked_url(url: str) -> str:
    """Without ``/v1`` and slashes at its end. Raises SetupError for what is no address."""
    if not kinds.is_address(url):
        raise SetupError(f"flag --url: '{url}' is no address such as http://127.0.0.1:11434")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _checked_key(key: str) -> str:
    kind = kinds.api_key()
    try:
        return str(kind.check(key))
    except ValueError:
        raise SetupError(f"flag --api-key: it must be {kind.allowed}") from None


def loaded_models(server: Connection) -> list[dict[str, Any]]:
    """The models in memory, as engine/status.py has them. Raises NoAnswer."""
    health = server.get("/health")
    if "engine" not in health:  # which is all that is told without the key
        raise server.wants_key()
    return list(health["engine"]["loaded"])


def _checked(server: Connection) -> Connection:
    try:
        server.get("/health")
    except NoAnswer as error:
        raise SetupError(f"{NO_SERVER.format(url=server.url)} ({error.message})") from error
    return server
