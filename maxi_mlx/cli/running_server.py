"""The running server, as commands talk to it: where it is, by the settings, and JSON over HTTP.

Blocks on the network. The standard library's own client: it is there at once, and a command has one
connection at a time.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

ANSWER_TIMEOUT_S = 5.0
NO_SERVER = (
    "no server answers at {url}; start one with `maxi-mlx serve`, or say where it is by --url"
)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server at ``url``, without a slash at its end. All calls raise SetupError, with the
    server's own words where it refuses."""

    url: str
    api_key: str | None = None
    tls: ssl.SSLContext | None = None

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        method: str | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Any:
        """What the server answers, as JSON has it; None for an empty answer. With a body it is a
        POST."""
        with self._opened(path, body, method=method, timeout_s=timeout_s) as response:
            try:
                text = response.read()
                return json.loads(text) if text else None
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._gone(error) from error

    def lines(
        self, path: str, body: object = None, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Iterator[bytes]:
        """The answer's lines as they come; ``timeout_s`` is the longest silence. Closing it ends
        the request."""
        with self._opened(path, body, method=None, timeout_s=timeout_s) as response:
            while True:
                try:
                    line = response.readline()
                except (OSError, http.client.HTTPException, ValueError) as error:
                    raise self._gone(error) from error
                if not line:
                    return
                yield line

    def _opened(
        self, path: str, body: object, *, method: str | None, timeout_s: float
    ) -> HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        if self.api_key is not None:
            request.add_header("Authorization", f"Bearer {self.api_key}")
        try:
            response = urllib.request.urlopen(request, timeout=timeout_s, context=self.tls)
        except urllib.error.HTTPError as error:
            raise SetupError(_refusal(self.url, error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._gone(error) from error
        if not is_ours(response.headers["Server"]):
            response.close()
            raise SetupError(f"another program than maxi-mlx answers at {self.url}")
        assert isinstance(response, HTTPResponse)
        return response

    def _gone(self, error: Exception) -> SetupError:
        reason = getattr(error, "reason", error)
        return SetupError(f"{NO_SERVER.format(url=self.url)} ({reason})")

    def health(self) -> dict[str, Any]:
        """What the server says of itself, with all that needs the key."""
        health = self.ask("/health")
        if "engine" not in health:
            raise SetupError(_wants_key(self.url))
        return dict(health)

    def loaded(self) -> list[dict[str, Any]]:
        """The models in memory, as engine/status.py has them."""
        return list(self.health()["engine"]["loaded"])


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
) -> RunningServer:
    """Raises SetupError where none is running; one at a ``url`` is only found out when asked."""
    found = find_running_server(settings, url=url, api_key=api_key)
    if found is None:
        raise SetupError(NO_SERVER.format(url=own_url(settings)))
    return found


def find_running_server(
    settings: Settings, *, url: str | None = None, api_key: str | None = None
) -> RunningServer | None:
    """The same, and None where none is running."""
    from maxi_mlx.server.address import served_at

    key = api_key or (settings.api_keys[0] if settings.api_keys else None)
    if url is not None:
        return RunningServer(checked_url(url), key)
    own = served_at(settings.host, settings.port)
    return None if own is None else RunningServer(own, key, _own_tls(settings, own))


def own_url(settings: Settings) -> str:
    """Where a server of these settings is, or would be."""
    from maxi_mlx.server.address import THIS_MACHINE

    scheme = "https" if settings.tls_cert is not None else "http"
    host = THIS_MACHINE.get(settings.host, settings.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"


def checked_url(url: str) -> str:
    """Without ``/v1`` and slashes at its end. Raises SetupError for what is no address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"flag --url: '{url}' is no address such as http://127.0.0.1:11434")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def is_ours(server_header: str | None) -> bool:
    return (server_header or "").startswith("maxi-mlx/")


def _own_tls(settings: Settings, url: str) -> ssl.SSLContext | None:
    """The certificate in the settings is this machine's own: it vouches for itself, whatever names
    are in it."""
    if settings.tls_cert is None or not url.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_cert)
    except OSError as error:
        place = settings.sources["tls_cert"]
        raise SetupError(f"{place}: {settings.tls_cert} can't be used: {error}") from error
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _wants_key(url: str) -> str:
    return f"the server at {url} wants its API key; give it by --api-key or MAXI_MLX_API_KEY"


def _refusal(url: str, error: urllib.error.HTTPError) -> str:
    with error:
        if not is_ours(error.headers["Server"]):
            return f"another program than maxi-mlx answers at {url}"
        if error.code == 401:
            return _wants_key(url)
        try:
            told = json.load(error)["error"]
            return str(told if isinstance(told, str) else told["message"])
        except (ValueError, KeyError, TypeError):
            return f"the server at {url} answers {error.code} {error.reason}"
