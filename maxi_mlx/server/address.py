"""The address the server listens on: its sockets, and what keeps it from having them."""

from __future__ import annotations

import asyncio
import errno
import http.client
import os
import socket
import ssl
from pathlib import Path

from maxi_mlx.core.errors import SetupError
from maxi_mlx.core.settings import DEFAULT_PORT, Settings

BACKLOG = 512
# A name such as localhost may stand for an address that this machine doesn't have (no IPv6).
NOT_HERE = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
# Addresses that mean all of this machine's, with one that leads to it.
THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
PROBE_S = 1.0


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
        raise await asyncio.to_thread(_explained, settings, error) from error
    if problem is not None and not sockets:
        raise await asyncio.to_thread(_explained, settings, problem) from problem
    return sockets


def address(settings: Settings, sock: socket.socket) -> str:
    """What to put into a client."""
    scheme = "https" if settings.tls_cert is not None else "http"
    return _url(scheme, settings.host, sock.getsockname()[1])


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    was_locked = False

    def password() -> str:  # else OpenSSL would ask at the terminal
        nonlocal was_locked
        was_locked = True
        return ""

    _check_certificate(settings, settings.tls_cert)
    key_field = "tls_key" if settings.tls_key is not None else "tls_cert"
    key = settings.tls_key or settings.tls_cert
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password)
    except ssl.SSLError as error:
        if was_locked:
            what = "the private key has a password; take it off: openssl pkey -in OLD -out NEW"
        elif error.reason == "KEY_VALUES_MISMATCH":
            what = f"this private key is not the one of {settings.tls_cert}"
        elif settings.tls_key is None:
            what = "there is no private key in it; name the key's own file by --tls-key"
        else:
            what = "there is no private key in PEM form in it"
        raise _unusable(settings, key_field, what=f"{key}: {what}") from error
    except OSError as error:
        raise _unusable(settings, key_field, what=f"{key}: {_reason(error)}") from error
    return context


def _check_certificate(settings: Settings, cert: Path) -> None:
    """By itself, as OpenSSL doesn't say which of two files it could not read."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
    except ssl.SSLError as error:
        what = f"{cert}: there is no certificate in PEM form in it (BEGIN CERTIFICATE)"
        raise _unusable(settings, "tls_cert", what=what) from error
    except OSError as error:
        raise _unusable(settings, "tls_cert", what=f"{cert}: {_reason(error)}") from error


def _unusable(settings: Settings, field: str, *, what: str) -> SetupError:
    place = settings.sources.get(field) or f"flag --{field.replace('_', '-')}"
    return SetupError(f"{place}{f', {field}' if place.startswith('file ') else ''}: {what}")


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


def served_at(host: str, port: int) -> str | None:
    """The address of the maxi-mlx that has this port; None where another program has it, or none.

    Blocks, for a second or two at most.
    """
    name = THIS_MACHINE.get(host, host)
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    for scheme, connection in (
        ("http", http.client.HTTPConnection(name, port, timeout=PROBE_S)),
        ("https", http.client.HTTPSConnection(name, port, timeout=PROBE_S, context=unchecked)),
    ):
        try:
            connection.request("GET", "/health", headers={"Host": "localhost"})
            is_ours = (connection.getresponse().getheader("Server") or "").startswith("maxi-mlx/")
        except TimeoutError:
            return None
        except (OSError, http.client.HTTPException):
            continue  # it may speak TLS alone
        finally:
            connection.close()
        return _url(scheme, host, port) if is_ours else None
    return None


def _url(scheme: str, host: str, port: int) -> str:
    name = THIS_MACHINE.get(host, host)
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"


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
    """What is wrong with the address. Blocks while it asks who has the port."""
    if isinstance(error, socket.gaierror):
        return SetupError(f"--host {settings.host} is no address or name that this machine knows.")
    if error.errno == errno.EADDRINUSE:
        if served := served_at(settings.host, settings.port):
            return SetupError(
                f"Port {settings.port} is taken: maxi-mlx is serving at {served} already. Use that "
                "one, stop it, or choose another port with --port."
            )
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
    return SetupError(f"Can't listen on {settings.host} port {settings.port}: {_reason(error)}.")
