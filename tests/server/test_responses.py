"""The Responses API over HTTP, on models whose words are known."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from maxi_mlx.api.responses.fields import RESPONSE_FIELDS
from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import RESPONSE_RUNS
from tests.models import build_model
from tests.models.scripted import COUNT, DIALOGUES, SUM_THOUGHT, TOOLS
from tests.server.asking import CHAT, body, is_idle, until
from tests.server.asking_responses import (
    FLAT_TOOLS,
    PATH,
    ask,
    endless,
    events_of,
    made,
    text_of,
    without_ids,
)
from tests.server.running import Client, Start, started

LOGPROBS = ["message.output_text.logprobs"]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests, since no two ask for the same responses."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


@pytest_asyncio.fixture(loop_scope="module")
async def start() -> AsyncIterator[Start]:
    """For those that need a server of their own."""
    async with started() as start:
        yield start


@pytest.mark.clients(5, 19, 80, 81, 82, 87)
@pytest.mark.parametrize("name", ["emoji", "second turn", "thought", "two calls", "text and call"])
async def test_a_stream_tells_the_whole_response_and_chat_says_the_same(
    client: Client, name: str
) -> None:
    whole = await made(client, ask(name))
    events = events_of(await client.post(PATH, json=ask(name, stream=True)))
    assert events[-1]["type"] == "response.completed"
    assert without_ids(events[-1]["response"]) == without_ids(whole)
    tools = {"tools": TOOLS} if DIALOGUES[name].tools else {}
    chat = (await client.post(CHAT, json=body(name, **tools))).json
    message = chat["choices"][0]["message"]
    assert text_of(whole) == (message["content"] or "")
    calls = [item for item in whole["output"] if item["type"] == "function_call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", [])
    ]
    usage = whole["usage"]
    assert usage["input_tokens"] == chat["usage"]["prompt_tokens"]
    assert usage["output_tokens"] == chat["usage"]["completion_tokens"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@pytest.mark.parametrize("wants", [{}, {"reasoning": {"summary": "auto"}}], ids=["text", "summary"])
async def test_thoughts_are_items_of_their_own(client: Client, wants: dict[str, Any]) -> None:
    response = await made(client, ask("thought", **wants))
    thought, message = response["output"]
    where = "summary" if wants else "content"
    assert (thought["type"], message["type"]) == ("reasoning", "message")
    assert thought[where][0]["text"] == SUM_THOUGHT
    assert text_of(response) == "The answer is 42."
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    # Both go back with the next turn, as clients send them.
    again = ask("capital", input=[*DIALOGUES["thought"].messages, thought, message])
    again["input"].append(DIALOGUES["capital"].messages[0])
    assert text_of(await made(client, again)) == DIALOGUES["capital"].reply


@pytest.mark.clients(83, 86)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_loop_of_tools_over_previous_responses(client: Client, stream: bool) -> None:
    async def turn(**more: Any) -> dict[str, Any]:
        asked = {
            "model": "scripted",
            "temperature": 0,
            "tools": FLAT_TOOLS,
            "stream": stream,
            **more,
        }
        answer = await client.post(PATH, json=asked)
        return dict(events_of(answer)[-1]["response"] if stream else answer.json)

    first = await turn(input="What is the weather in Paris and in Tokyo?")
    results = ("21 degrees, clear", "15 degrees, rain")
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": result}
        for call, result in zip(first["output"], results, strict=True)
    ]
    second = await turn(input=outputs, previous_response_id=first["id"])
    assert text_of(second) == DIALOGUES["after two calls"].reply
    assert second["previous_response_id"] == first["id"]
    # Nothing of the first turn was computed again.
    assert second["usage"]["input_tokens_details"]["cached_tokens"] > first["usage"]["input_tokens"]
    third = await turn(input="Hello!", previous_response_id=second["id"])
    assert text_of(third) == DIALOGUES["greeting"].reply
    listed = (await client.get(f"{PATH}/{third['id']}/input_items?order=asc")).json
    kinds = ["message", *["function_call"] * 2, *["function_call_output"] * 2, *["message"] * 2]
    assert [item["type"] for item in listed["data"]] == kinds


async def test_instructions_are_not_handed_on(client: Client) -> None:
    first = await made(client, ask("name", instructions="You are a pirate."))
    assert text_of(first) == "Arr, I am a pirate!"
    second = await made(client, ask("greeting", previous_response_id=first["id"]))
    assert second["instructions"] is None
    listed = (await client.get(f"{PATH}/{second['id']}/input_items")).json
    assert "pirate." not in json.dumps([item for item in listed["data"] if item["role"] == "user"])


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


async def test_references_to_items(client: Client) -> None:
    first = await made(client, ask("first turn"))
    listed = (await client.get(f"{PATH}/{first['id']}/input_items")).json["data"]
    reference = [
        {"type": "item_reference", "id": each["id"]} for each in (*listed, *first["output"])
    ]
    question = DIALOGUES["second turn"].messages[-1]
    second = await made(client, ask("first turn", input=[*reference, question]))
    assert text_of(second) == DIALOGUES["second turn"].reply
    lost = await client.post(PATH, json=ask(input=[{"type": "item_reference", "id": "msg_x"}]))
    assert (lost.status, lost.error["code"]) == (400, "item_not_found")


@pytest.mark.clients(36)
async def test_structured_output(client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"legs": {"type": "integer"}, "name": {"enum": ["cat", "dog"]}},
        "required": ["legs", "name"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "animal", "schema": schema, "strict": True}
    response = await made(client, ask("greeting", text={"format": form}, max_output_tokens=100))
    animal = json.loads(text_of(response))
    assert set(animal) == {"legs", "name"}
    assert response["text"]["format"]["schema"] == schema


async def test_a_tool_that_has_to_be_called(client: Client) -> None:
    choice = {"type": "function", "name": "get_time"}
    response = await made(client, ask("call", tool_choice=choice, max_output_tokens=200))
    [call] = response["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_time")
    assert json.loads(call["arguments"])["city"]


async def test_a_custom_tool_gets_text(client: Client) -> None:
    patch = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
    asked = ask("greeting", tools=[patch], tool_choice="required", max_output_tokens=200)
    [call] = (await made(client, asked))["output"]
    assert (call["type"], call["name"]) == ("custom_tool_call", "apply_patch")
    assert "arguments" not in call
    back = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
    assert (await client.post(PATH, json=ask(input=[call, back], tools=[patch]))).status == 200


@pytest.mark.clients(88)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_answer_that_is_cut(client: Client, stream: bool) -> None:
    answer = await client.post(PATH, json=ask("count", max_output_tokens=5, stream=stream))
    response = events_of(answer)[-1]["response"] if stream else answer.json
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert COUNT.startswith(text_of(response))


@pytest.mark.clients(85)
async def test_an_empty_input_warms_a_model_up(client: Client) -> None:
    response = await made(client, {"model": "scripted", "input": "", "max_output_tokens": 1})
    assert response["usage"]["output_tokens"] == 1
    assert response["output"][0]["type"] == "message"


async def test_log_probabilities(client: Client) -> None:
    response = await made(client, ask(include=LOGPROBS, top_logprobs=2))
    tokens = response["output"][0]["content"][0]["logprobs"]
    assert "".join(token["token"] for token in tokens) == DIALOGUES["capital"].reply
    assert all(len(token["top_logprobs"]) == 2 for token in tokens)
    events = events_of(await client.post(PATH, json=ask(include=LOGPROBS, stream=True)))
    deltas = [e for e in events if e["type"] == "response.output_text.delta"]
    streamed = [token["token"] for event in deltas for token in event["logprobs"]]
    assert streamed == [token["token"] for token in tokens]


@pytest.mark.clients(76)
@pytest.mark.parametrize("name", ["capital", "after two calls"])
async def test_the_count_of_input_tokens_is_what_is_used(client: Client, name: str) -> None:
    if name == "after two calls":
        asked = ask("two calls", previous_response_id=(await made(client, ask("capital")))["id"])
    else:
        asked = ask(name)
    counted = (await client.post(f"{PATH}/input_tokens", json=asked)).json
    used = (await made(client, asked))["usage"]["input_tokens"]
    assert counted == {"object": "response.input_tokens", "input_tokens": used}


# -- what is kept --------------------------------------------------------------------------------


async def test_fetching_and_deleting(client: Client) -> None:
    response = await made(client, ask(metadata={"for": "me"}))
    place = f"{PATH}/{response['id']}"
    assert (await client.get(place)).json == response
    assert (await client.get(f"{place}?stream=true")).error["param"] == "stream"
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
    async with asyncio.timeout(20):
        while (response := (await client.get(place)).json)["status"] == "in_progress":
            await asyncio.sleep(0.02)
    assert (response["status"], text_of(response)) == ("completed", COUNT)
    # What fails is told where it is fetched.
    failing = await made(client, ask(background=True, model="scripted", input="x " * 9000))
    async with asyncio.timeout(20):
        while (response := (await client.get(f"{PATH}/{failing['id']}")).json)[
            "status"
        ] != "failed":
            await asyncio.sleep(0.02)
    assert response["error"]["code"] == "context_length_exceeded"


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


# -- limits and mistakes -------------------------------------------------------------------------


@pytest.fixture
def short_model(tmp_path: Path) -> Path:
    return build_model(tmp_path / "short", "llama", max_position_embeddings=200)


@pytest.mark.clients(41)
async def test_a_conversation_longer_than_the_context(start: Start, short_model: Path) -> None:
    client = await start(Settings(), Root(short_model, "tests", "folders"))
    turns: list[dict[str, Any]] = []
    for number in range(12):
        turns.append({"role": "user", "content": f"question {number} " + "word " * 8})
        turns.append({"role": "assistant", "content": "answer"})
    asked = {"model": "short", "input": turns[:-1], "max_output_tokens": 4, "instructions": "Be."}
    refused = await client.post(PATH, json=asked)
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    assert refused.error["param"] == "input"
    response = await made(client, {**asked, "truncation": "auto"})
    assert response["truncation"] == "auto"
    assert 100 < response["usage"]["input_tokens"] <= 196
    # The last turn stays, however long it is.
    alone = {**asked, "input": "word " * 200, "truncation": "auto"}
    assert (await client.post(PATH, json=alone)).error["code"] == "context_length_exceeded"


@pytest.mark.clients(23)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_leaves_ends_generation(client: Client, stream: bool) -> None:
    timeout = aiohttp.ClientTimeout(total=0.4)
    with pytest.raises(TimeoutError):
        await client.post(PATH, json=endless(stream=stream), timeout=timeout)
    await until(lambda: is_idle(client))


async def test_paths(client: Client) -> None:
    for method, path, status in (
        ("GET", PATH, 405),
        ("GET", f"{PATH}/resp_x", 404),
        ("GET", f"{PATH}/resp_x/input_items", 404),
        ("DELETE", f"{PATH}/resp_x", 404),
        ("POST", f"{PATH}/resp_x/cancel", 404),
        ("POST", f"{PATH}/resp_x", 405),
        ("POST", f"{PATH}/compact/x/y", 404),
        ("POST", "/responses/", 400),
        ("POST", "/v1//responses/input_tokens", 400),
    ):
        answer = await client.send(method, path)
        assert answer.status == status, (method, path)
        assert answer.error


JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e300, "", "x", "\u2028", [], {}, [None], [[]], {"type": "x"}),
    [{"type": "message", "role": "user", "content": [{"type": "input_text"}]}],
    [{"type": "function_call", "name": "f", "arguments": "{"}],
    [{"type": "function_call_output", "output": []}, {"role": "user", "content": ""}],
    [{"type": "custom", "name": "f", "format": {"type": "grammar"}}],
    [{"type": "namespace", "name": "n", "tools": [{"type": "namespace"}]}],
    {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    {"type": "allowed_tools", "tools": [{"name": "f"}]},
)


@pytest.mark.clients(25, 29, 48)
async def test_no_body_is_a_fault_of_the_server(client: Client) -> None:
    chance = random.Random(7)
    fields = sorted(RESPONSE_FIELDS)

    async def one(number: int) -> None:
        asked = {"model": "scripted", "input": "hi", "max_output_tokens": 2}
        for _ in range(chance.randint(1, 3)):
            asked[chance.choice(fields)] = chance.choice(JUNK)
        data = json.dumps(asked)
        if number % 10 == 0:
            data = data[: chance.randrange(len(data))]
        path = chance.choice((PATH, PATH, f"{PATH}/input_tokens"))
        answer = await client.post(path, data=data)
        assert answer.status < 500, (data, answer.body)
        if answer.status != 200:
            assert answer.error, data

    for start in range(0, 120, 8):
        await asyncio.gather(*(one(start + number) for number in range(8)))
    assert text_of(await made(client, ask())) == DIALOGUES["capital"].reply
