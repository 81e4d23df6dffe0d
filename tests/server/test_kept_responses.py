"""Responses that are kept: fetched, streamed again, cancelled, gone on from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import RESPONSE_RUNS
from tests.models.scripted import COUNT, DIALOGUES, SUM_THOUGHT
from tests.server.asking import is_idle, until
from tests.server.asking_responses import (
    PATH,
    ask,
    endless,
    events_of,
    made,
    text_of,
)
from tests.server.running import Client, Start, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


@pytest_asyncio.fixture(loop_scope="module")
async def start() -> AsyncIterator[Start]:
    """For those that need a server of their own."""
    async with started() as start:
        yield start


async def test_responses_outlive_the_server(start: Start, scripted_model: Path) -> None:
    root = Root(scripted_model, "tests", "folders")
    one = await start(Settings(), root)
    first = await made(one, ask("first turn"))
    other = await start(Settings(), root)
    assert (await other.get(f"{PATH}/{first['id']}")).json == first
    question = DIALOGUES["second turn"].messages[-1:]
    second = await made(
        other, ask("first turn", input=list(question), previous_response_id=first["id"])
    )
    assert text_of(second) == DIALOGUES["second turn"].reply


async def test_fetching_and_deleting(client: Client) -> None:
    response = await made(client, ask(metadata={"for": "me"}))
    place = f"{PATH}/{response['id']}"
    assert (await client.get(place)).json == response
    # There is nothing left to cancel.
    assert (await client.post(f"{place}/cancel")).json == response
    deleted = (await client.send("DELETE", place)).json
    assert deleted == {"id": response["id"], "object": "response", "deleted": True}
    for method, path in (("GET", place), ("DELETE", place), ("GET", f"{place}/input_items")):
        answer = await client.send(method, path)
        assert (answer.status, answer.error["code"]) == (404, "not_found")
    answer = await client.post(PATH, json=ask(previous_response_id=response["id"]))
    assert (answer.status, answer.error["code"]) == (400, "previous_response_not_found")
    assert answer.error["param"] == "previous_response_id"


async def test_pages_of_input_items(client: Client) -> None:
    asked = [{"role": "user", "content": f"say {number}"} for number in range(5)]
    response = await made(client, ask(input=asked, max_output_tokens=1))
    place = f"{PATH}/{response['id']}/input_items"
    page = (await client.get(f"{place}?limit=2")).json
    assert [item["content"][0]["text"] for item in page["data"]] == ["say 4", "say 3"]
    assert (page["has_more"], page["last_id"]) == (True, page["data"][1]["id"])
    page = (await client.get(f"{place}?order=desc&after={page['last_id']}")).json
    assert [item["content"][0]["text"] for item in page["data"]] == ["say 2", "say 1", "say 0"]
    assert page["has_more"] is False
    for query in ("limit=0", "limit=101", "limit=x", "order=up", "after=none"):
        assert (await client.get(f"{place}?{query}")).status == 400


@pytest.mark.parametrize("settings", [Settings(store=False), None], ids=["server", "request"])
async def test_what_is_not_to_be_kept_is_not(
    start: Start, scripted_model: Path, settings: Settings | None
) -> None:
    client = await start(settings or Settings(), Root(scripted_model, "tests", "folders"))
    response = await made(client, ask(store=None if settings else False))
    assert response["store"] is False
    assert (await client.get(f"{PATH}/{response['id']}")).status == 404
    answer = await client.post(PATH, json=ask(previous_response_id=response["id"]))
    assert (answer.status, answer.error["code"]) == (400, "previous_response_not_found")
    assert ("--no-store" in answer.error["message"]) == (settings is not None)


async def test_in_the_background(client: Client) -> None:
    begun = await made(client, ask("count", background=True))
    assert (begun["status"], begun["background"], begun["usage"]) == ("in_progress", True, None)
    place = f"{PATH}/{begun['id']}"
    listed = (await client.get(f"{place}/input_items")).json["data"]
    assert [item["content"][0]["text"] for item in listed] == ["Count to 50."]
    async with asyncio.timeout(30):
        while (response := (await client.get(place)).json)["status"] == "in_progress":
            await asyncio.sleep(0.02)
    assert (response["status"], text_of(response)) == ("completed", COUNT)
    # What fails is told where it is fetched.
    failing = await made(client, ask(background=True, model="scripted", input="x " * 9000))
    async with asyncio.timeout(30):
        while (response := (await client.get(f"{PATH}/{failing['id']}")).json)[
            "status"
        ] != "failed":
            await asyncio.sleep(0.02)
    assert response["error"]["code"] == "context_length_exceeded"


async def test_a_kept_response_as_a_stream(client: Client) -> None:
    response = await made(client, ask("thought"))
    place = f"{PATH}/{response['id']}"
    events = events_of(await client.get(f"{place}?stream=true"))
    assert events[-1] == {
        "type": "response.completed",
        "response": response,
        "sequence_number": len(events) - 1,
    }
    deltas = [event["delta"] for event in events if event["type"].endswith("_text.delta")]
    assert deltas == [SUM_THOUGHT, "The answer is 42."]
    # Its events had other numbers when it was made.
    answer = await client.get(f"{place}?stream=true&starting_after=3")
    assert (answer.status, answer.error["param"]) == (400, "starting_after")
    for word in ("x", "-1", "1.5", "9" * 30):
        answer = await client.get(f"{place}?stream=true&starting_after={word}")
        assert (answer.status, answer.error["param"]) == (400, "starting_after")
    assert (await client.get(f"{PATH}/resp_x?stream=true")).status == 404


def data_of(received: bytes) -> list[dict[str, Any]]:
    """The events of a part of a stream, without one that was cut, and without keep-alives."""
    whole = received[: received.rindex(b"\n\n")]
    frames = [frame for frame in whole.split(b"\n\n") if not frame.startswith(b":")]
    return [json.loads(frame.partition(b"data: ")[2]) for frame in frames]


async def test_a_stream_in_the_background_goes_on_without_its_client(client: Client) -> None:
    """The connection breaks after some events; the client takes up where it was."""
    url = f"http://127.0.0.1:{client.port}{PATH}"
    asked = ask("count", background=True, stream=True)
    async with client.session.post(url, json=asked) as answer:
        received = b""
        while received.count(b"output_text.delta") < 6:
            received += await answer.content.readany()
    seen = data_of(received)
    id, last = seen[0]["response"]["id"], seen[-1]["sequence_number"]
    place = f"{PATH}/{id}?stream=true"
    answer = await client.get(f"{place}&starting_after={last}")
    later = data_of(answer.body)
    numbers = [event["sequence_number"] for event in seen + later]
    assert numbers == list(range(last + 1 + len(later)))
    final = later[-1]["response"]
    assert (final["status"], final["background"], text_of(final)) == ("completed", True, COUNT)
    assert (await client.get(f"{PATH}/{id}")).json == final
    # It has ended, and its events are the same for whoever asks.
    assert events_of(await client.get(place)) == seen + later
    assert (await client.get(f"{place}&starting_after=100000")).body == b""
    assert (await client.send("DELETE", f"{PATH}/{id}")).status == 200
    assert (await client.get(place)).status == 404


async def test_several_follow_one_response(client: Client) -> None:
    begun = await made(client, endless(background=True))
    place = f"{PATH}/{begun['id']}"
    readers = [asyncio.create_task(client.get(f"{place}?stream=true")) for _ in range(3)]
    runs = client.app[RESPONSE_RUNS]
    await until(lambda: bool(runs.all[0].response.snapshot()["output"]))
    cancelled = (await client.post(f"{place}/cancel")).json
    for reader in readers:
        assert events_of(await reader)[-1]["response"] == cancelled
    await until(lambda: is_idle(client))


async def test_only_what_is_in_the_background_is_streamed_to_others(client: Client) -> None:
    waiting = asyncio.create_task(client.post(PATH, json=endless(stream=True)))
    runs = client.app[RESPONSE_RUNS]
    await until(lambda: bool(runs.all))
    id = runs.all[0].response.id
    answer = await client.get(f"{PATH}/{id}?stream=true")
    assert (answer.status, answer.error["param"]) == (400, "stream")
    await client.post(f"{PATH}/{id}/cancel")
    await waiting
    await until(lambda: is_idle(client))


@pytest.mark.parametrize("how", ["background", "whole", "stream"])
async def test_cancelling(client: Client, how: str) -> None:
    asked = endless(**{} if how == "whole" else {how: True})
    waiting = asyncio.create_task(client.post(PATH, json=asked))
    runs = client.app[RESPONSE_RUNS]
    await until(lambda: any(run.response.snapshot()["output"] for run in runs.all))
    [run] = runs.all
    id = run.response.id
    if how == "background":
        answer = await client.send("DELETE", f"{PATH}/{id}")
        assert (answer.status, "cancel it first" in answer.error["message"]) == (400, True)
    cancelled = (await client.post(f"{PATH}/{id}/cancel")).json
    assert (cancelled["status"], cancelled["error"]) == ("cancelled", None)
    assert text_of(cancelled)
    answer = await waiting
    if how == "stream":
        assert events_of(answer)[-1]["response"] == cancelled
    elif how == "whole":
        assert answer.json == cancelled
    assert (await client.get(f"{PATH}/{id}")).json == cancelled
    await until(lambda: is_idle(client))
