"""The measuring client's reading of HTTP responses: whatever the pieces, the same reply."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring.client import Reply
from measuring.response import read_response

EVENTS = (
    b": keepalive 3/9\n\n",
    b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"text":" b","finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n',
    b"data: [DONE]\n\n",
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"


def chunked(parts: tuple[bytes, ...]) -> bytes:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def plain(parts: tuple[bytes, ...]) -> bytes:
    """As a server of HTTP/1.0 sends it: until the connection ends."""
    head = STREAM_HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")
    return head + b"Connection: close\r\n\r\n" + b"".join(parts)


def read(*pieces: bytes) -> Reply:
    """Of pieces that come a second apart."""
    reply = Reply(begun_s=0.0, ended_s=float(len(pieces)))
    read_response([(float(place), piece) for place, piece in enumerate(pieces)], reply)
    return reply


@pytest.mark.parametrize("response", [chunked(EVENTS), plain(EVENTS)], ids=["chunked", "plain"])
@given(cuts=st.sets(st.integers(1, 500)))
def test_a_stream_cut_anywhere(response: bytes, cuts: set[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(response)), len(response)]
    pieces = [response[a:b] for a, b in itertools.pairwise(places)]
    reply = read(*pieces)
    assert (reply.error, reply.is_finished) == (None, True)
    assert (reply.prompt_tokens, reply.usage_tokens) == (7, 2)
    # An event is there with its last byte, which is the line's end.
    ends = [response.index(b'"text":' + text) for text in (b'"a"', b'" b"')]
    ends = [response.index(b"\n", end) for end in ends]
    in_time = [sum(place <= end for place in places[1:]) for end in ends]
    if b"chunked" in response:  # or with its chunk's
        chunk_ends = [end + 3 for end in ends]
        in_time = [sum(place <= end for place in places[1:]) for end in chunk_ends]
    assert reply.chunk_times_s == [float(piece) for piece in in_time]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        pytest.param(b"", "connection: no answer", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-", "connection: no answer", id="half a head"),
        pytest.param(b'HTTP/1.1 429 Busy\r\n\r\n{"error":1}', "HTTP 429", id="refused"),
        pytest.param(plain(EVENTS[:-1]), "ended without [DONE]", id="no done"),
        pytest.param(plain((EVENTS[1], EVENTS[5])), "ended without a finish_reason", id="no end"),
        pytest.param(plain((b"data: {oops\n\n",)), "not an answer", id="not JSON"),
        pytest.param(
            plain((b'data: {"error":{"message":"lost"}}\n\n',)), "error in the answer", id="error"
        ),
    ],
)
def test_what_is_wrong_with_an_answer(response: bytes, error: str) -> None:
    assert read(response).error == error


def test_a_refusal_says_why() -> None:
    assert read(b"HTTP/1.1 400 Bad\r\n\r\n", b"too long").detail == "too long"


def test_a_whole_answer() -> None:
    body = b'{"choices":[{"text":"ab","finish_reason":"stop"}],"usage":{"completion_tokens":5}}'
    reply = read(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", body)
    assert (reply.error, reply.completion_tokens, reply.chunk_times_s) == (None, 5, [2.0])
