"""Reads one HTTP response out of the pieces that it came in, with the time of each.

A machine: knows no socket and no clock. An event has the time of the piece that completed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from measuring.client import MAX_DETAIL, Reply
from measuring.wire import event_data, read_answer

Piece = tuple[float, bytes]


def read_response(pieces: Sequence[Piece], reply: Reply) -> None:
    """Notes in ``reply`` all that came; what is wrong with it is the reply's ``error``."""
    head, rest = _split_head(pieces)
    if head is None:
        reply.error = "connection: no answer"
        return
    status_line, *header_lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in header_lines)
    }
    body = list(_unchunked(rest) if headers.get("transfer-encoding") == "chunked" else rest)
    status = status_line.split(" ")[1]
    if status != "200":
        reply.error = f"HTTP {status}"
        reply.detail = b"".join(data for _, data in body).decode(errors="replace")[:MAX_DETAIL]
        return
    try:
        if headers.get("content-type", "").startswith("text/event-stream"):
            _read_events(body, reply)
        else:
            reply.note(read_answer(b"".join(data for _, data in body)), reply.ended_s)
    except msgspec.MsgspecError:
        reply.error = "not an answer"


def _read_events(body: Sequence[Piece], reply: Reply) -> None:
    for now_s, line in _lines(body):
        data = event_data(line)
        if data == b"[DONE]":
            break
        if data:
            reply.note(read_answer(data), now_s)
    else:
        reply.error = reply.error or "ended without [DONE]"
    if not reply.is_finished:
        reply.error = reply.error or "ended without a finish_reason"


def _split_head(pieces: Sequence[Piece]) -> tuple[bytes | None, list[Piece]]:
    """The head, and the pieces of what follows it."""
    data = b""
    for place, (now_s, piece) in enumerate(pieces):
        data += piece
        head, mark, after = data.partition(b"\r\n\r\n")
        if mark:
            return head, [(now_s, after), *pieces[place + 1 :]]
    return None, []


def _unchunked(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Takes the lengths out that the chunked encoding puts between. A part of a chunk waits for
    the rest of it."""
    data = b""
    for now_s, piece in pieces:
        data += piece
        while True:
            size_text, mark, after = data.partition(b"\r\n")
            size = int(size_text.partition(b";")[0], 16) if mark else 0
            if not mark or len(after) < size + 2:
                break
            yield now_s, after[:size]
            data = after[size + 2 :]


def _lines(pieces: Sequence[Piece]) -> Iterator[Piece]:
    data = b""
    for now_s, piece in pieces:
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            yield now_s, line
