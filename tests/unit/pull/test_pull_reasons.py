"""What the system and the network libraries say, as people would."""

from __future__ import annotations

import errno
import os

import pytest

from maxi_mlx.catalog.pull.reasons import plain_words

POOL = "HTTPSConnectionPool(host='index.example', port=443): Max retries exceeded with url: /x/ "


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            POOL + "(Caused by NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection "
            "object at 0x7f1>: Failed to establish a new connection: [Errno 111] Connection "
            "refused'))",
            "connection refused",
        ),
        (
            POOL + '(Caused by NameResolutionError("<x object at 0x7f1>: Failed to resolve '
            "'index.example' ([Errno -3] Temporary failure in name resolution)\"))",
            "no address is known for it (is there a network?)",
        ),
        (
            POOL + "(Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_"
            "FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)')))",
            "its certificate isn't trusted by this machine",
        ),
        (
            POOL + "(Caused by ProxyError('Unable to connect to proxy', NewConnectionError('<x "
            "object at 0x7f1>: [Errno 111] Connection refused')))",
            "the proxy can't be reached",
        ),
        (
            POOL + "(Caused by ProxyError('Cannot connect to proxy.', OSError('Tunnel connection "
            "failed: 407 Proxy Authentication Required')))",
            "the proxy refused",
        ),
        (
            POOL
            + "(Caused by ConnectTimeoutError(<x object at 0x7f1>, 'Connection to index.example "
            "timed out. (connect timeout=15)'))",
            "it did not answer in time",
        ),
        (
            "('Connection broken: IncompleteRead(5 bytes read)', IncompleteRead(5 bytes read))",
            "the connection was closed early",
        ),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "no network leads there"),
        ("404 Client Error: Not Found for url: https://index.example/x/", "status 404, not found"),
        ("503 Server Error: busy", "status 503, service unavailable"),
        ("599 Server Error: own", "status 599"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "no space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "permission denied: /x"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/reset"), "no such file or"),
        ("Something\n new.", "Something new"),
    ],
)
def test_plain_words(error: object, words: str) -> None:
    assert plain_words(error).startswith(words)
    assert " object at " not in plain_words(error)
