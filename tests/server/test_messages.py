"""Anthropic's Messages API over the scripted model, whose words are known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.engine.asking import slowed
from tests.models.scripted import COUNT, DIALOGUES, Dialogue
from tests.server.asking import long_text, until
from tests.server.asking_messages import (
    BOTH,
    CITY_TOOLS,
    COUNTING,
    MESSAGES,
    VERSION,
    asked,
    calls_of,
    chat_answer,
    error_of,
    message,
    text_of,
    tokens,
)
from tests.server.running import Client, started
from tests.unit.api.test_anthropic_writers import frames, joined

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


@pytest.mark.slow
@pytest.mark.clients(5, 66, 68, 69, 75)
async def test_every_dialogue_is_as_in_chat(client: Client) -> None:
    """Streamed, whole, and over OpenAI's API: the same words, calls, thoughts and counts."""

    async def one(name: str, dialogue: Dialogue) -> None:
        chat = await chat_answer(client, dialogue)
        said = chat["choices"][0]["message"]
        called = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in said.get("tool_calls", ())
        ]
        for stream in (False, True):
            answer = await message(client, asked(name), stream=stream)
            thoughts = [b["thinking"] for b in answer["content"] if b["type"] == "thinking"]
            assert text_of(answer) == (said["content"] or ""), name
            assert calls_of(answer) == called, name
            assert "".join(thoughts) == said.get("reasoning_content", ""), name
            assert tokens(answer["usage"]) == chat["usage"]["prompt_tokens"], name
            assert answer["usage"]["output_tokens"] == chat["usage"]["completion_tokens"], name
            reason = "tool_use" if called else "end_turn"
            assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, None), name
        counted = await client.post(COUNTING, json=asked(name), headers=VERSION)
        assert counted.json == {"input_tokens": chat["usage"]["prompt_tokens"]}, name

    await asyncio.gather(*(one(name, dialogue) for name, dialogue in DIALOGUES.items()))


@BOTH
@pytest.mark.clients(69, 74, 75)
async def test_a_tool_loop_with_a_thought(client: Client, stream: bool) -> None:
    """What was answered goes back as it is, and its thought with it."""
    ask = asked("thought and call", thinking={"type": "adaptive"})
    answer = await message(client, ask, stream=stream)
    thought, call = answer["content"]
    assert thought["thinking"] == "I have to look at a clock."
    assert thought["signature"]
    assert (call["name"], call["input"]) == ("get_time", {"city": "Tokyo"})
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "12:00"}
    messages = [
        *ask["messages"],
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result]},
    ]
    later = await message(client, {**ask, "messages": messages}, stream=stream)
    assert later["stop_reason"] == "end_turn"
    assert later["usage"]["cache_read_input_tokens"] > 200


@BOTH
@pytest.mark.clients(12)
async def test_at_most_one_call(client: Client, stream: bool) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    answer = await message(client, asked("two calls", tool_choice=choice), stream=stream)
    assert calls_of(answer) == [("get_weather", {"city": "Paris"})]


@pytest.mark.clients(13)
async def test_a_tool_that_has_to_be_called(client: Client) -> None:
    choice = {"type": "tool", "name": "get_time"}
    answer = await message(client, asked("call", tool_choice=choice))
    [(name, given)] = calls_of(answer)[:1]
    assert name == "get_time"
    assert set(given) == {"city"}
    none = await message(client, asked("no tools", tools=CITY_TOOLS, tool_choice={"type": "none"}))
    assert text_of(none) == DIALOGUES["no tools"].reply


@pytest.mark.slow
@BOTH
@pytest.mark.clients(77)
async def test_point_77_how_answers_end(client: Client, stream: bool) -> None:
    stopped = await message(client, asked("count", stop_sequences=["x", ", 7"]), stream=stream)
    assert text_of(stopped) == COUNT.partition(", 7")[0]
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", ", 7")
    short = await message(client, asked("count", max_tokens=5), stream=stream)
    assert COUNT.startswith(text_of(short))
    assert (short["stop_reason"], short["usage"]["output_tokens"]) == ("max_tokens", 5)
    full = await message(client, asked("count", max_tokens=100_000), stream=stream)
    assert (text_of(full), full["stop_reason"]) == (COUNT, "end_turn")


@pytest.mark.clients(69, 77)
async def test_a_call_that_is_cut_has_no_input(client: Client) -> None:
    ask = asked("call", max_tokens=17)
    whole = await message(client, ask)
    assert (whole["stop_reason"], calls_of(whole)) == ("max_tokens", [("get_weather", {})])
    answer = await client.post(MESSAGES, json={**ask, "stream": True})
    [block] = joined(frames(answer.body))
    assert block["json"]
    assert '{"city": "Paris"}'.startswith(block["json"])


async def test_no_tokens_fill_the_cache(client: Client) -> None:
    ask = asked("story", system="word " * 200)
    filled = await message(client, {**ask, "max_tokens": 0})
    assert (filled["content"], filled["stop_reason"]) == ([], "max_tokens")
    assert (filled["usage"]["output_tokens"], filled["usage"]["cache_read_input_tokens"]) == (0, 0)
    later = await message(client, ask)
    assert later["usage"]["input_tokens"] == 1


@BOTH
async def test_an_answer_that_is_begun(client: Client, stream: bool) -> None:
    ask = asked()
    begun = [*ask["messages"], {"role": "assistant", "content": "The capital of"}]
    answer = await message(client, {**ask, "messages": begun}, stream=stream)
    assert text_of(answer) == " France is Paris."
    counted = await client.post(COUNTING, json={**ask, "messages": begun})
    assert counted.json["input_tokens"] == tokens(answer["usage"])


async def test_thoughts_by_a_budget_and_hidden(client: Client) -> None:
    whole = await message(client, asked("thought", thinking={"type": "adaptive"}))
    few = {"type": "enabled", "budget_tokens": 8}
    short = await message(client, asked("thought", thinking=few))
    thought = short["content"][0]["thinking"]
    assert 0 < len(thought) < len(whole["content"][0]["thinking"])
    assert whole["content"][0]["thinking"].startswith(thought.rstrip())
    hidden = {"type": "adaptive", "display": "omitted"}
    for stream in (False, True):
        answer = await message(client, asked("thought", thinking=hidden), stream=stream)
        assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
        assert answer["content"][0]["thinking"] == ""
        assert text_of(answer) == "The answer is 42."


async def test_output_by_a_schema(client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["sum"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "schema": schema}
    for more in ({"output_config": {"format": form}}, {"output_format": form}):
        ask = asked("hi", thinking={"type": "disabled"}, **more)
        jsonschema.validate(json.loads(text_of(await message(client, ask))), schema)


@pytest.mark.slow
@pytest.mark.clients(72, 73)
async def test_point_72_an_agents_second_turn_is_read_from_the_cache(client: Client) -> None:
    """Claude Code's first line differs in every request, and its marks move."""

    def turns(number: int, *messages: Any) -> dict[str, Any]:
        line = f"x-anthropic-billing-header: cc_version=2.1.197; cch=0{number};"
        system = [{"type": "text", "text": line}, {"type": "text", "text": "word " * 150}]
        return asked(system=system, messages=list(messages))

    mark = {"cache_control": {"type": "ephemeral"}}
    question = {"type": "text", "text": DIALOGUES["capital"].messages[0]["content"]}
    first = {"role": "user", "content": [question | mark]}
    answer = await message(client, turns(1, first))
    moved = {"role": "user", "content": [question]}
    said = {"role": "assistant", "content": answer["content"]}
    again = {"role": "user", "content": [{"type": "text", "text": "And now?"} | mark]}
    usage = (await message(client, turns(2, moved, said, again)))["usage"]
    assert usage["cache_read_input_tokens"] > 0.95 * tokens(usage)


@pytest.mark.clients(76)
async def test_point_76_counting_does_not_hold_up_an_answer(client: Client) -> None:
    ask = {"model": "long", "messages": [{"role": "user", "content": "word " * 3000}]}
    with slowed():
        body = long_text(max_tokens=300)
        running = asyncio.create_task(client.post("/v1/completions", json=body))
        await until(lambda: client.engine.status().num_running == 1)
        counts = await asyncio.gather(*(client.post(COUNTING, json=ask) for _ in range(15)))
        assert not running.done()
    assert len({count.json["input_tokens"] for count in counts}) == 1
    assert counts[0].json["input_tokens"] > 3000
    assert (await running).status == 200


@pytest.mark.clients(41, 76)
async def test_a_count_may_be_more_than_the_context_holds(client: Client) -> None:
    messages = [{"role": "user", "content": "1 2 3 " * 1500}]
    counted = await client.post(COUNTING, json=asked(messages=messages))
    refused = await client.post(MESSAGES, json=asked(messages=messages))
    number = counted.json["input_tokens"]
    assert number > 4096
    words = f"prompt is too long: {number} tokens > 4096 maximum."
    assert refused.status == 400
    assert error_of(refused)["message"].startswith(words)
