"""The Responses API over HTTP, on models whose words are known."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import COUNT, DIALOGUES, SUM_THOUGHT, TOOLS
from tests.server.asking import CHAT, body
from tests.server.asking_responses import (
    FLAT_TOOLS,
    PATH,
    ask,
    events_of,
    made,
    text_of,
    without_ids,
)
from tests.server.running import Client, started

LOGPROBS = ["message.output_text.logprobs"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


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
