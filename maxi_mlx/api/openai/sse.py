"""Frames of a server-sent event stream. It knows nothing of what they carry."""

from __future__ import annotations

import msgspec

DONE = b"data: [DONE]\n\n"

# A comment: readers skip it. It must not begin with ": ping", which one client takes for the end.
KEEP_ALIVE = b": keep-alive\n\n"

# Legal inside JSON, but readers that split their input with Unicode's idea of a line (httpx's
# iter_lines, Python's str.splitlines) would cut an event in two there.
_LINE_ENDS = (
    (b"\xc2\x85", b"\\u0085"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)

_encode = msgspec.json.Encoder().encode


def to_json(value: object) -> bytes:
    """JSON on one line, whatever the reader takes for a line."""
    written = _encode(value)
    if not written.isascii():
        for line_end, escaped in _LINE_ENDS:
            if line_end in written:
                written = written.replace(line_end, escaped)
    return written


def frame(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
