"""Why a download or a file failed, in plain words. Knows what the system and the network libraries
say, and not what was being done."""

from __future__ import annotations

import re
from http import HTTPStatus

# The first that is found in the text counts: a proxy's fault has the connection's inside it.
_KNOWN = (
    ("tunnel connection failed", "the proxy refused"),
    ("to proxy|proxyerror", "the proxy can't be reached"),
    ("certificate|ssl", "its certificate isn't trusted by this machine"),
    (
        "name resolution|not known|nodename|getaddrinfo|failed to resolve|no address",
        "no address is known for it (is there a network?)",
    ),
    ("connection refused", "connection refused"),
    ("timed out|timeout", "it did not answer in time"),
    ("unreachable|no route", "no network leads there"),
    (
        "reset|disconnected|aborted|incompleteread|broken|closed connection",
        "the connection was closed early",
    ),
)


def plain_words(error: object) -> str:
    """For the end of a sentence; without the names of classes and objects."""
    text = " ".join(without_objects(error).split())
    if status := re.search(r"\b(\d{3}) (?:client|server) error", text, re.IGNORECASE):
        return status_words(int(status[1]))
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror.lower()}: {error.filename}"
    for pattern, words in _KNOWN:
        if re.search(pattern, text, re.IGNORECASE):
            return words
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return text.rstrip(".")


def status_words(status: int) -> str:
    """A refusal by HTTP, for people."""
    known = {known.value: f", {known.phrase.lower()}" for known in HTTPStatus}
    return f"status {status}{known.get(status, '')}"


def without_objects(text: object) -> str:
    """Errors of urllib3 name the object they happened to, which says nothing to a person."""
    return re.sub(r"<[^<>]+ object at 0x[0-9a-f]+>(: )?", "", str(text))
