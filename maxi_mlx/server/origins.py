"""Who may call from a browser: origins and Host headers. Knows headers as text, no HTTP library.

A web page can make a browser call this server in two ways. It can call across origins; the browser
then says so in ``Origin``. Or its domain can suddenly resolve to this machine (DNS rebinding); then
the page's own name arrives as ``Host``. Programs that are not browsers send no ``Origin``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from maxi_mlx.core.settings import Settings

# Pages that come with an installed program, not from the web. Not among them: ``null``, which any
# sandboxed frame can send, and browser extensions, which many people install without a thought.
APP_SCHEMES = frozenset(
    {"app", "capacitor", "file", "ionic", "tauri", "vscode-file", "vscode-webview"}
)
UNSPECIFIED = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPolicy:
    """Which origins may call, and which names this server answers to."""

    any_origin: bool
    listed: frozenset[str]
    names: frozenset[str] | None  # beside local ones; None: any name, no check

    @classmethod
    def of(cls, settings: Settings) -> OriginPolicy:
        any_origin = "*" in settings.cors_origins
        listed = frozenset(_plain(origin) for origin in settings.cors_origins) - {"*"}
        # Where any page may call, a page under a rebound name gains nothing; and on an address
        # that others can reach, nobody knows all the names that lead to it.
        checks_names = is_local_name(settings.host) and not any_origin
        names = frozenset({settings.host.lower(), *_hosts(listed)}) if checks_names else None
        return cls(any_origin=any_origin, listed=listed, names=names)

    def allows_origin(self, origin: str, *, host: str | None) -> bool:
        """Whether a page of this origin may call; ``host`` is the request's Host header."""
        if not origin.isascii():
            return False  # no browser sends such, and it could not be named in the answer
        origin = _plain(origin)
        if self.any_origin or origin in self.listed:
            return True
        scheme, separator, netloc = origin.partition("://")
        if not separator:
            return False
        if scheme in APP_SCHEMES:
            return True
        if host is not None and netloc == host.lower():
            return True  # a page that this server itself handed out
        name = host_name(netloc)
        return name is not None and is_local_name(name)

    def allows_host(self, host: str | None) -> bool:
        """Whether a request with this Host header is meant for us. Browsers always send one."""
        if self.names is None or host is None:
            return True
        name = host_name(host)
        if name is None:
            return False
        # ``.internal`` is kept out of the public DNS; containers reach their host by such a name
        # (host.docker.internal).
        return (
            is_local_name(name)
            or name in self.names
            or name in UNSPECIFIED
            or name.endswith(".internal")
        )


def is_local_name(name: str) -> bool:
    """Whether a name or address always means this machine (no look-up is made)."""
    name = name.lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(netloc: str) -> str | None:
    """The name in ``name:port`` or ``[address]:port``; None where there is none to be read."""
    try:
        name = urlsplit(f"//{netloc}").hostname
    except ValueError:
        return None
    return name.removesuffix(".") if name else None


def _plain(origin: str) -> str:
    origin = origin.strip().lower()
    return origin if origin.endswith("://") else origin.removesuffix("/")


def _hosts(origins: Iterable[str]) -> frozenset[str]:
    names = (host_name(origin.partition("://")[2]) for origin in origins)
    return frozenset(name for name in names if name is not None)
