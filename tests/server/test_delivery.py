"""How events reach a client, whole and as a stream, whatever becomes of them on the way.

The events are written down here, as an engine sends such faults and pauses too seldom.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from maxi_mlx.api import openai
from maxi_mlx.core.errors import ContextTooLong, EngineFailed, Overloaded
from maxi_mlx.core.events import (
    Completed,
    Event,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    TextDelta,
    Timings,
    Usage,
)
from maxi_mlx.server import stream
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.feeds import Feeds
from maxi_mlx.server.keys import FEEDS, KEEP_ALIVE_S, RECORD
from maxi_mlx.server.record import RequestRecord
from maxi_mlx.server.stream import send_stream
from maxi_mlx.server.whole import send_whole
from tests.server.running import Client, Start

Events = Callable[[], AsyncIterator[Event]]

STARTED = Started("tiny", 3)
FINISHED = Finished(0, "stop", None, 2)
COMPLETED = Completed(Usage(3, 2), Timings(0, 0, 0, 1))
FULL = Overloaded("Too many are waiting.", retry_after_s=7)

HEAD = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"tiny",'
    b'"system_fingerprint":null,"choices":['
)
ROLE = HEAD + (
    b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}'
)
HI = HEAD + b'{"index":0,"delta":{"content":"hi"},"logprobs":null,"finish_reason":null}]}'
STOP = HEAD + b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}'
DONE = b"data: [DONE]"
KEEP_ALIVE = b": keep-alive"


def frames(body: bytes) -> list[bytes]:
    assert body.endswith(b"\n\n")
    return body[:-2].split(b"\n\n")


def error_in(frame: bytes) -> dict[str, object]:
    error = json.loads(frame.removeprefix(b"data: "))["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return dict(error)


async def serving(start: Start, events: Events, *, keep_alive_s: float = 10.0) -> Client:
    """A server with ``/stream`` and ``/whole``, which answer with ``events``."""
    head: dict[str, Any] = {"id": "chatcmpl-1", "created": 1}

    def feeding(request: web.Request) -> EventFeed:
        return EventFeed(
            events(), asked_model="asked", record=request[RECORD], among=request.app[FEEDS]
        )

    async def streamed(request: web.Request) -> web.StreamResponse:
        async with feeding(request) as feed:
            return await send_stream(
                request,
                feed,
                writer=partial(openai.ChatStreamWriter, **head),
                keep_alive=openai.KEEP_ALIVE,
            )

    async def whole(request: web.Request) -> web.StreamResponse:
        async with feeding(request) as feed:
            return await send_whole(feed, partial(openai.ChatAnswer, **head))

    def prepare(app: web.Application) -> None:
        app.router.add_get("/stream", streamed)
        app.router.add_get("/whole", whole)
        app[KEEP_ALIVE_S] = keep_alive_s

    return await start(prepare=prepare)


def played(*steps: Event | Exception | float) -> Events:
    """Events in order; a number is a pause in seconds, an exception is raised."""

    async def events() -> AsyncIterator[Event]:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, int | float):
                await asyncio.sleep(step)
            else:
                yield step

    return events


GOOD = (STARTED, TextDelta(0, "hi"), FINISHED, COMPLETED)


@pytest.mark.clients(16, 17)
async def test_point_16_the_whole_stream_byte_by_byte(start: Start) -> None:
    client = await serving(start, played(*GOOD))
    answer = await client.get("/stream")
    assert answer.status == 200
    assert frames(answer.body) == [ROLE, HI, STOP, DONE]
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["X-Request-Id"].startswith("req-")
    assert "Content-Encoding" not in answer.headers


async def test_a_client_of_http_1_0_gets_the_same_stream(start: Start) -> None:
    client = await serving(start, played(*GOOD))
    received = await client.raw(b"GET /stream HTTP/1.0\r\n\r\n")
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert frames(body) == [ROLE, HI, STOP, DONE]


@pytest.mark.clients(48)
@pytest.mark.parametrize("path", ["/stream", "/whole"])
@pytest.mark.parametrize(
    "events",
    [played(FULL), played(Failed(FULL)), played(STARTED, Failed(FULL)), played(0.1, FULL)],
    ids=["raised", "sent", "sent after the start", "raised late"],
)
@pytest.mark.usefixtures("patient_door")
async def test_point_48_an_error_at_the_door_has_its_status(
    start: Start, path: str, events: Events
) -> None:
    client = await serving(start, events)
    answer = await client.get(path)
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "7"
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.error["message"] == "Too many are waiting."


@pytest.mark.parametrize("path", ["/stream", "/whole"])
@pytest.mark.parametrize("events", [played(ValueError("secret")), played(STARTED)])
async def test_a_fault_of_ours_is_a_500_that_tells_no_secrets_and_is_logged_once(
    start: Start, path: str, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    client = await serving(start, events)
    answer = await client.get(path)
    if answer.status == 200:  # the stream had begun with the first event
        [_, last] = frames(answer.body)
        error = error_in(last)
    else:
        assert answer.status == 500
        error = answer.error
    identity = answer.headers["X-Request-Id"]
    assert identity in str(error["message"])
    assert "secret" not in str(error)
    assert error["type"] == "server_error"
    [record] = [record for record in caplog.records if record.exc_info]
    assert identity in record.getMessage()


@pytest.mark.slow
@pytest.mark.clients(14)
async def test_point_14_the_first_bytes_come_within_a_second_whatever_takes_long(
    start: Start,
) -> None:
    assert stream.DOOR_WAIT_S < 1
    may_begin = asyncio.Event()

    async def events() -> AsyncIterator[Event]:
        await may_begin.wait()
        for event in GOOD:
            yield event

    client = await serving(start, events)
    async with client.session.get(f"http://127.0.0.1:{client.port}/stream") as response:
        assert response.status == 200
        first = await response.content.readany()
        may_begin.set()
        rest = await response.content.read()
    assert frames(first) == [KEEP_ALIVE]
    assert frames(rest) == [ROLE, HI, STOP, DONE]


@pytest.mark.clients(14)
async def test_point_14_the_stream_begins_before_the_prompt_is_read(start: Start) -> None:
    is_read = asyncio.Event()

    async def events() -> AsyncIterator[Event]:
        yield STARTED
        await is_read.wait()
        for event in GOOD[1:]:
            yield event

    client = await serving(start, events)
    async with client.session.get(f"http://127.0.0.1:{client.port}/stream") as response:
        assert frames(await response.content.readany()) == [ROLE]
        is_read.set()
        assert frames(await response.content.read()) == [HI, STOP, DONE]


@pytest.mark.clients(15)
async def test_point_15_silence_is_filled_with_comments(start: Start) -> None:
    reading = [step for n in range(20) for step in (0.03, PrefillProgress(n, 20))]
    client = await serving(start, played(STARTED, *reading, *GOOD[1:]), keep_alive_s=0.1)
    began_s = time.monotonic()
    body = (await client.get("/stream")).body
    took_s = time.monotonic() - began_s
    comments = frames(body).count(KEEP_ALIVE)
    # One for each 0.1 of 0.6 s of silence, or of more on a busy machine, which may miss some.
    assert 2 <= comments <= took_s / 0.1
    assert [f for f in frames(body) if f != KEEP_ALIVE] == [ROLE, HI, STOP, DONE]
    assert stream.DEFAULT_KEEP_ALIVE_S == 10
    assert not KEEP_ALIVE.startswith(b": ping")


@pytest.mark.clients(15)
async def test_point_15_no_comment_while_text_flows(start: Start) -> None:
    sent_s: list[float] = []

    async def events() -> AsyncIterator[Event]:
        for event in (STARTED, *[TextDelta(0, "hi")] * 20, FINISHED, COMPLETED):
            await asyncio.sleep(0.02)
            sent_s.append(time.monotonic())
            yield event

    client = await serving(start, events, keep_alive_s=0.3)
    comments = frames((await client.get("/stream")).body).count(KEEP_ALIVE)
    # None, but where the machine itself stood still for so long.
    assert comments <= sum((later - at) // 0.3 for at, later in itertools.pairwise(sent_s))


@pytest.mark.clients(18)
@pytest.mark.parametrize("pause", [0, 0.1])
async def test_point_18_a_failure_in_the_stream_is_its_last_event(
    start: Start, pause: float
) -> None:
    failed = Failed(EngineFailed("The device stopped."))
    client = await serving(start, played(STARTED, 0.05, TextDelta(0, "hi"), pause, failed))
    answer = await client.get("/stream")  # reading to the end shows that it was ended, not cut
    assert answer.status == 200
    role, text, last = frames(answer.body)
    assert (role, text) == (ROLE, HI)
    assert error_in(last) == {
        "message": "The device stopped.",
        "type": "server_error",
        "param": None,
        "code": "engine_failed",
    }


@pytest.mark.clients(18)
async def test_point_18_what_is_raised_late_is_the_last_event_too(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "DOOR_WAIT_S", 0.02)
    client = await serving(start, played(0.1, ContextTooLong("9 tokens do not fit into 8.")))
    answer = await client.get("/stream")
    assert answer.status == 200
    comment, last = frames(answer.body)
    assert comment == KEEP_ALIVE
    assert error_in(last)["code"] == "context_length_exceeded"


async def test_an_engine_that_ends_under_a_request_is_said_to_have_ended(start: Start) -> None:
    async def events() -> AsyncIterator[Event]:
        yield STARTED
        await asyncio.sleep(0.05)
        raise asyncio.CancelledError

    client = await serving(start, events)
    error = error_in(frames((await client.get("/stream")).body)[-1])
    assert error["code"] == "unavailable"
    assert (await client.get("/whole")).status == 503


@pytest.mark.parametrize("steps", [0, 1, 3], ids=["before it began", "at once", "later"])
async def test_a_feed_that_is_ended_says_so_once(steps: int) -> None:
    feeds = Feeds()
    events = Endless(STARTED, pause_s=60)
    feed = EventFeed(
        events(),
        asked_model="m",
        record=RequestRecord(method="GET", path="/"),
        among=feeds,
    )
    async with feed:
        assert list(feeds) == [feed]
        for _ in range(steps):
            await asyncio.sleep(0)
        feed.end()
        await asyncio.sleep(0.01)
        feed.end()
        taken = await feed.take(timeout_s=1)
    assert feed.has_ended
    assert [type(event) for event in taken] == [Started, Failed][steps == 0 :]
    assert events.ended.is_set() is (steps > 0)
    assert not list(feeds)


async def test_what_comes_together_is_sent_together(start: Start) -> None:
    burst = [TextDelta(0, "hi")] * 500
    client = await serving(start, played(STARTED, 0.05, *burst, FINISHED, COMPLETED))
    async with client.session.get(f"http://127.0.0.1:{client.port}/stream") as response:
        num_pieces, body = 0, b""
        async for piece, is_end in response.content.iter_chunks():
            num_pieces += is_end
            body += piece
    assert frames(body) == [ROLE, *[HI] * 500, STOP, DONE]
    assert num_pieces == 2


async def test_a_whole_answer_that_fails_half_way_is_an_error(start: Start) -> None:
    failed = Failed(EngineFailed("The device stopped."))
    client = await serving(start, played(STARTED, TextDelta(0, "hi"), 0.01, failed))
    answer = await client.get("/whole")
    assert answer.status == 500
    assert answer.error["code"] == "engine_failed"


async def test_a_whole_answer_names_the_model_that_answered(start: Start) -> None:
    client = await serving(start, played(*GOOD))
    answer = await client.get("/whole")
    assert answer.status == 200
    assert answer.json["model"] == "tiny"
    assert answer.json["choices"][0]["message"]["content"] == "hi"


class Endless:
    """Events that go on until somebody ends them, and whether they have begun and ended."""

    def __init__(self, *first: Event, pause_s: float = 0.01) -> None:
        self._first = first
        self._pause_s = pause_s
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> AsyncIterator[Event]:
        self.begun.set()
        try:
            for event in self._first:
                yield event
            while True:
                await asyncio.sleep(self._pause_s)
                yield TextDelta(0, "hi")
        finally:
            self.ended.set()


@pytest.mark.clients(23)
@pytest.mark.parametrize("path", ["/stream", "/whole"])
@pytest.mark.parametrize("first", [(), (STARTED,)], ids=["loading", "running"])
async def test_point_23_a_client_that_leaves_ends_generation(
    start: Start, path: str, first: tuple[Event, ...]
) -> None:
    events = Endless(*first, pause_s=0.01 if first else 300)
    client = await serving(start, events)
    _, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async with asyncio.timeout(30):
        await events.begun.wait()
        await asyncio.sleep(0.1)
        assert not events.ended.is_set()
        writer.close()
        await events.ended.wait()


async def leave(client: Client, *, after: int) -> None:
    """Reads so many pieces of text of ``/stream``, and closes the connection."""
    async with client.session.get(f"http://127.0.0.1:{client.port}/stream") as response:
        num_read = 0
        while num_read < after:
            if b'"content":"hi"' in await response.content.readuntil(b"\n\n"):
                num_read += 1


@pytest.mark.clients(24)
async def test_point_24_a_reader_that_is_slow_holds_up_nobody(start: Start) -> None:
    made = asyncio.Event()
    text = "x" * 10_000

    async def events() -> AsyncIterator[Event]:
        yield STARTED
        for _ in range(1000):
            await asyncio.sleep(0)
            yield TextDelta(0, text)
        made.set()
        yield FINISHED
        yield COMPLETED

    client = await serving(start, events)
    async with client.session.get(f"http://127.0.0.1:{client.port}/stream") as response:
        async with asyncio.timeout(60):
            await made.wait()  # though nobody has read the 10 MB yet
        assert (await client.get("/")).status == 200
        body = await response.content.read()
    assert body.count(text.encode()) == 1000
    assert frames(body)[-1] == DONE
