"""/v1/responses/{id}: a response fetched, deleted, cancelled, and what it was made of."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from maxi_mlx.api import responses
from maxi_mlx.api.responses import RawItem
from maxi_mlx.core.errors import InvalidRequest, NotFound
from maxi_mlx.server.keys import RESPONSE_RUNS, RESPONSE_STORE
from maxi_mlx.server.response_file import KeptResponse
from maxi_mlx.server.response_log import EventLog
from maxi_mlx.server.response_stream import send_log

_TRUE = ("true", "1")


async def get_response(request: web.Request) -> web.StreamResponse:
    id = _id(request)
    if request.query.get("stream", "").lower() in _TRUE:
        return await _stream(request, id)
    if (run := request.app[RESPONSE_RUNS].get(id)) is not None:
        return _json(run.response.body())
    return _json(responses.object_body((await _kept(request, id)).body))


async def _stream(request: web.Request, id: str) -> web.StreamResponse:
    """The events as they were sent, and those to come; where only the response is left of them,
    others that make the same."""
    begin = _begin(request.query.get("starting_after"))
    if (run := request.app[RESPONSE_RUNS].get(id)) is not None:
        if run.log is None:
            raise InvalidRequest(
                f"The response {id!r} is being sent to the one who asked for it. Only one made "
                "with 'background' can be streamed to others; fetch this one whole.",
                param="stream",
            )
        return await send_log(request, run.log, begin=begin)
    kept = await _kept(request, id)
    log = request.app[RESPONSE_RUNS].log(id)
    if log is None and begin:
        raise InvalidRequest(
            f"The events of the response {id!r} are no longer here by their numbers. Leave out "
            "'starting_after' for its text in one piece, or fetch it whole.",
            param="starting_after",
        )
    if log is None:
        log = EventLog()
        log.add(responses.replay_frames(kept.body), is_end=True)
    return await send_log(request, log, begin=begin)


def _begin(starting_after: str | None) -> int:
    if starting_after is None:
        return 0
    if starting_after.isascii() and starting_after.isdigit() and len(starting_after) < 10:
        return int(starting_after) + 1
    raise InvalidRequest(
        f"'starting_after' must be an event's sequence_number, not {starting_after[:40]!r}.",
        param="starting_after",
    )


async def delete_response(request: web.Request) -> web.Response:
    id = _id(request)
    if request.app[RESPONSE_RUNS].get(id) is not None:
        raise InvalidRequest(f"The response {id!r} is still being made; cancel it first.")
    if not await request.app[RESPONSE_STORE].delete(id):
        raise _not_found(request, id)
    request.app[RESPONSE_RUNS].forget(id)
    return _json(responses.deleted_body(id))


async def cancel_response(request: web.Request) -> web.Response:
    """Of a response that has ended, what became of it."""
    id = _id(request)
    run = request.app[RESPONSE_RUNS].get(id)
    if run is None:
        return _json(responses.object_body((await _kept(request, id)).body))
    await run.cancel()
    return _json(run.response.body())


async def refuse_compact(_: web.Request) -> web.Response:
    raise InvalidRequest(
        "Compacting is not served: send the conversation itself, or go on from a response by "
        "'previous_response_id'. With 'truncation' set to 'auto' its oldest turns are left out "
        "where it is longer than the context."
    )


async def list_input_items(request: web.Request) -> web.Response:
    """All that the model was given, what previous responses brought in included."""
    query = request.query
    body = responses.input_items_body(
        await _input_items(request, _id(request)),
        limit=query.get("limit"),
        order=query.get("order"),
        after=query.get("after"),
    )
    return _json(body)


async def _input_items(request: web.Request, id: str) -> Sequence[RawItem]:
    if (run := request.app[RESPONSE_RUNS].get(id)) is not None:
        return [*run.history, *run.call.input_items]
    kept = await _kept(request, id)
    # Where something before it is gone, what is left is its own.
    chain = await request.app[RESPONSE_STORE].chain(id) or [kept]
    earlier = [item for response in chain[:-1] for item in response.items]
    return [*earlier, *kept.input_items]


async def _kept(request: web.Request, id: str) -> KeptResponse:
    kept = await request.app[RESPONSE_STORE].get(id)
    if kept is None:
        raise _not_found(request, id)
    return kept


def _not_found(request: web.Request, id: str) -> NotFound:
    why = "" if request.app[RESPONSE_STORE].is_on else " This server keeps none (--no-store)."
    return NotFound(f"There is no response {id[:80]!r}.{why}", param="response_id")


def _id(request: web.Request) -> str:
    return request.match_info["id"]


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
