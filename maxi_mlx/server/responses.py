"""POST /v1/responses: a body in, a response out, whole, as a stream, or in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from aiohttp import web

from maxi_mlx.api import openai, responses
from maxi_mlx.api.responses import AskedResponse, RawItem, Response, ResponseCall
from maxi_mlx.core.errors import ContextTooLong, InvalidRequest
from maxi_mlx.core.events import Failed
from maxi_mlx.core.request import NO_LIMIT, GenerateRequest
from maxi_mlx.engine.engine import Engine
from maxi_mlx.server.access_log import finish
from maxi_mlx.server.body import read_body
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.generation import LARGE_BODY_BYTES
from maxi_mlx.server.keys import ENGINE, FEEDS, RECORD, RESPONSE_RUNS, RESPONSE_STORE
from maxi_mlx.server.record import RequestRecord
from maxi_mlx.server.response_file import KeptResponse
from maxi_mlx.server.response_log import EventLog
from maxi_mlx.server.response_runs import ResponseRun
from maxi_mlx.server.response_store import ResponseStore
from maxi_mlx.server.response_stream import send_log
from maxi_mlx.server.stream import send_stream

# What is left of the context for an answer, where old turns have to go for it.
LEAST_ROOM_TOKENS = 512
MOST_ROOM_SHARE = 4

Result = TypeVar("Result")


async def create_response(request: web.Request) -> web.StreamResponse:
    call, history = await read_call(request)
    record = request[RECORD]
    engine = request.app[ENGINE]
    asked = await _fitting(call, engine)
    response = Response(
        call,
        id="resp_" + record.id.removeprefix("req-"),
        created=int(time.time()),
        model=asked.model,
    )
    if call.in_background:
        feed, log = _feed(request.app, asked, record), EventLog()
        run = ResponseRun(call=call, response=response, history=history, feed=feed, log=log)
        begun = asyncio.Event()
        record.goes_on = True
        work = partial(_in_background, request.app, run, log=log, record=record, begun=begun)
        request.app[RESPONSE_RUNS].start(work)
        await begun.wait()
        if call.stream:
            return await send_log(request, log, begin=0)
        return _json(response.body())
    async with _feed(request.app, asked, record) as feed:
        run = ResponseRun(call=call, response=response, history=history, feed=feed)
        with request.app[RESPONSE_RUNS].one(run), _naming_input():
            if not call.stream:
                await _read(run)
                await _keep(request.app, run)
                return _json(response.body())
            return await send_stream(
                request,
                feed,
                writer=partial(responses.ResponseStream, response),
                keep_alive=openai.KEEP_ALIVE,
                before_end=partial(_keep, request.app, run),
            )


async def count_input_tokens(request: web.Request) -> web.Response:
    call, _ = await read_call(request)
    with _naming_input():
        num_tokens = await request.app[ENGINE].count_tokens(call.request)
    request[RECORD].counted_tokens = num_tokens
    return _json(responses.input_tokens_body(num_tokens))


async def read_call(request: web.Request) -> tuple[ResponseCall, Sequence[RawItem]]:
    """What a body asks for, and what was said before its own input."""
    record, store = request[RECORD], request.app[RESPONSE_STORE]
    body = await read_body(request)
    is_large = len(body) >= LARGE_BODY_BYTES
    asked = await _done(partial(responses.read_response, body), on_thread=is_large)
    record.asked_model = asked.fields.model or None
    history = await _history(asked, store)
    parse = partial(
        responses.parse_response,
        asked,
        request_id=record.id,
        history=history,
        referenced=await _referenced(asked, store),
        can_store=store.is_on,
    )
    call = await _done(parse, on_thread=is_large or len(history) > 1000)
    record.observe_request(call.request)
    return call, history


async def _done(work: Callable[[], Result], *, on_thread: bool) -> Result:
    """A body of many megabytes takes a second, in which others' text would stand still."""
    return await asyncio.to_thread(work) if on_thread else work()


# -- what a request goes on from -----------------------------------------------------------------


async def _history(asked: AskedResponse, store: ResponseStore) -> Sequence[RawItem]:
    previous_id = asked.previous_id
    if previous_id is None:
        return ()
    chain = await store.chain(previous_id)
    if chain is None:
        why = (
            "it was never kept, or it or one before it is too old or was deleted"
            if store.is_on
            else "this server keeps no responses (--no-store)"
        )
        raise InvalidRequest(
            f"The previous response {previous_id[:80]!r} was not found: {why}. Send the whole "
            "conversation as 'input'.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    return [item for response in chain for item in response.items]


async def _referenced(asked: AskedResponse, store: ResponseStore) -> dict[str, RawItem]:
    ids = asked.references
    found = dict(await store.items(ids))
    for id in ids:
        if id not in found:
            raise InvalidRequest(
                f"'input' refers to the item {id[:80]!r}, which is not kept here. Send the item "
                "itself.",
                param="input",
                code="item_not_found",
            )
    return found


async def _fitting(call: ResponseCall, engine: Engine) -> GenerateRequest:
    """The request, without its oldest turns where it asks for that and the context is too short."""
    request = call.request
    most = responses.num_droppable(request) if call.truncates else 0
    context_tokens = await engine.context_length(request) if most else None
    if not most or context_tokens is None:
        return request
    wanted = request.max_tokens
    if wanted is None or wanted == NO_LIMIT:
        wanted = LEAST_ROOM_TOKENS
    room = min(wanted, context_tokens // MOST_ROOM_SHARE)

    async def fits(num_dropped: int) -> bool:
        try:
            shorter = responses.without_turns(request, num_dropped)
            return await engine.count_tokens(shorter) + room <= context_tokens
        except ContextTooLong:
            return False

    if await fits(0):
        return request
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if await fits(middle) else (middle + 1, high)
    return responses.without_turns(request, low)


# -- the answer ----------------------------------------------------------------------------------


def _feed(app: web.Application, asked: GenerateRequest, record: RequestRecord) -> EventFeed:
    events = app[ENGINE].generate(asked)
    return EventFeed(events, asked_model=asked.model, record=record, among=app[FEEDS])


async def _read(run: ResponseRun) -> None:
    """All events. Raises the error of a response that failed and was not cancelled."""
    while not run.feed.has_ended:
        for event in await run.feed.take():
            if isinstance(event, Failed) and not run.response.is_cancelled:
                raise event.error
            run.response.observe(event)


async def _in_background(
    app: web.Application,
    run: ResponseRun,
    *,
    log: EventLog,
    record: RequestRecord,
    begun: asyncio.Event,
) -> None:
    """Here a failure is one of the response's states."""
    record.status = 200
    try:
        async with run.feed:
            with app[RESPONSE_RUNS].one(run):
                begun.set()
                await _make(app, run, log)
    finally:
        finish(app, record)


async def _make(app: web.Application, run: ResponseRun, log: EventLog) -> None:
    stream = responses.ResponseStream(run.response, model=run.response.model)
    while not run.feed.has_ended:
        frames = [frame for event in await run.feed.take() for frame in stream.frames(event)]
        if run.feed.has_ended:  # a client may make use of it at the last event
            await _keep(app, run)
        log.add(frames, is_end=run.feed.has_ended)


async def _keep(app: web.Application, run: ResponseRun) -> None:
    if run.call.stores and run.response.has_ended:
        kept = KeptResponse(
            id=run.response.id,
            previous_id=run.call.previous_id,
            body=run.response.snapshot(),
            input_items=run.call.input_items,
        )
        await app[RESPONSE_STORE].save(kept)


@contextmanager
def _naming_input() -> Iterator[None]:
    """The engine calls a conversation by chat's name for it."""
    try:
        yield
    except InvalidRequest as error:
        if error.param == "messages":
            error.param = "input"
        raise


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
