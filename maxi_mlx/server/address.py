"""The address the server listens on: sockets, the certificate, and what is wrong with them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl

from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import DEFAULT_PORT, Settings

BACKLOG = 512
# A name such as localhost may stand for an address that this machine doesn't have (no IPv6).
NOT_HERE = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


async def listen(settings: Settings) -> list[socket.socket]:
    """Takes the port, before anything that costs time is started. Raises SetupError."""
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    port = settings.port
    problem: OSError | None = None
    try:
        found = await loop.getaddrinfo(settings.host, None, type=socket.SOCK_STREAM)
        for family, _, _, _, place in dict.fromkeys(found):
            try:
                sockets.append(_listening(family, (place[0], port, *place[2:])))
            except OSError as error:
                problem = error
                if error.errno not in NOT_HERE:
                    raise
            else:
                port = sockets[0].getsockname()[1]  # the same for all, where any would do
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise _explained(settings, error) from error
    if problem is not None and not sockets:
        raise _explained(settings, problem) from problem
    return sockets


def address(settings: Settings, sock: socket.socket) -> str:
    """What to put into a client."""
    scheme = "https" if settings.tls_cert is not None else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{sock.getsockname()[1]}"


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        key = f" and the key {settings.tls_key}" if settings.tls_key is not None else ""
        raise SetupError(
            f"The certificate {settings.tls_cert}{key} can't be used: "
            f"{error.strerror or error}. Both have to be PEM files that belong together."
        ) from error
    return context


def _listening(family: int, place: tuple[str | int, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A restart must not wait for the old connections' last packets.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _explained(settings: Settings, error: OSError) -> SetupError:
    if isinstance(error, socket.gaierror):
        return SetupError(f"--host {settings.host} is no address or name that this machine knows.")
    if error.errno == errno.EADDRINUSE:
        owner = " (Ollama uses it too)" if settings.port == DEFAULT_PORT else ""
        return SetupError(
            f"Port {settings.port} is taken by another program{owner}. "
            "Stop that one, or choose another port with --port."
        )
    if error.errno == errno.EACCES:
        return SetupError(
            f"Port {settings.port} may not be used by this user. Choose one above 1023 with --port."
        )
    if error.errno in NOT_HERE:
        return SetupError(
            f"--host {settings.host} is not an address of this machine. "
            "Use 127.0.0.1 for this machine alone, or 0.0.0.0 for all its addresses."
        )
    reason = os.strerror(error.errno) if error.errno else str(error)
    return SetupError(f"Can't listen on {settings.host} port {settings.port}: {reason}.")
