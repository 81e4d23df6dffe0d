"""Responses in the making, without a server around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from maxi_mlx.api.responses import Response, parse_response, read_response
from maxi_mlx.core.events import Event
from maxi_mlx.server.feed import EventFeed
from maxi_mlx.server.feeds import Feeds
from maxi_mlx.server.record import RequestRecord
from maxi_mlx.server.response_log import EventLog
from maxi_mlx.server.response_runs import ResponseRun, ResponseRuns


async def _no_events() -> AsyncIterator[Event]:
    return
    yield


@pytest.mark.asyncio
async def test_who_reads_a_response_is_not_left_waiting_where_making_it_fails() -> None:
    call = parse_response(read_response(b'{"model": "m", "input": "hi"}'), request_id="req-00")
    record = RequestRecord(method="POST", path="/v1/responses", id="req-00")
    log = EventLog()
    run = ResponseRun(
        call=call,
        response=Response(call, id="resp_00", created=0, model="m"),
        history=(),
        feed=EventFeed(_no_events(), asked_model="m", record=record, among=Feeds()),
        log=log,
    )
    log.add([b"data: 0\n\n"], is_end=False)
    reader = asyncio.create_task(log.since(1, timeout_s=20))
    await asyncio.sleep(0)

    def fail() -> None:
        with ResponseRuns().one(run):
            raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError):
        fail()
    assert await asyncio.wait_for(reader, 5) == []
    assert log.is_read_up_to(1)
