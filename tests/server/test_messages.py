"""Anthropic's Messages API over the scripted model, whose words are known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from aiohttp import web

from maxi_mlx.api.anthropic.fields import MESSAGES_FIELDS
from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import KEEP_ALIVE_S
from tests.models.scripted import COUNT, DIALOGUES, TOOLS, Dialogue
from tests.server.asking import CHAT, body, is_idle, long_text, until
from tests.server.running import Answer, Client, Start
from tests.unit.api.test_anthropic_writers import frames, joined

MESSAGES = "/v1/messages"
COUNTING = "/v1/messages/count_tokens"
VERSION = {"Anthropic-Version": "2023-06-01"}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

CITY_TOOLS = [
    {
        "name": tool["function"]["name"],
        "description": tool["function"]["description"],
        "input_schema": tool["function"]["parameters"],
    }
    for tool in TOOLS
]


@pytest.fixture(scope="session")
def folders(scripted_model: Path, long_model: Path) -> list[Path]:
    return [scripted_model, long_model]


@pytest.fixture
async def client(start: Start, folders: list[Path]) -> Client:
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


def turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of OpenAI's form in Anthropic's."""
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        return {"role": "user", "content": [{**block, "content": message["content"]}]}
    blocks = [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        given = json.loads(function["arguments"])
        called = {"id": call["id"], "name": function["name"], "input": given}
        blocks.append({"type": "tool_use", **called})
    return {"role": message["role"], "content": blocks}


def asked(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    dialogue = DIALOGUES[name]
    ask: dict[str, Any] = {
        "model": "scripted",
        "max_tokens": 200,
        "temperature": 0,
        "messages": [turn(each) for each in dialogue.messages if each["role"] != "system"],
    }
    system = [each["content"] for each in dialogue.messages if each["role"] == "system"]
    if system:
        ask["system"] = system[0]
    if dialogue.tools:
        ask["tools"] = CITY_TOOLS
    if dialogue.template_kwargs == {"enable_thinking": False}:
        ask["thinking"] = {"type": "disabled"}
    return {**ask, **more}


async def message(client: Client, ask: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """The answer, whole or joined from its stream."""
    answer = await client.post(MESSAGES, json={**ask, "stream": stream}, headers=VERSION)
    assert answer.status == 200, answer.body
    if not stream:
        assert answer.headers["Content-Type"].startswith("application/json")
        return dict(answer.json)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    first, *rest = [each for each in frames(answer.body) if each["type"] != "ping"]
    delta, stop = rest[-2:]
    assert (first["type"], stop["type"]) == ("message_start", "message_stop")
    content = []
    for block in joined(rest):
        written = block.pop("json")
        content.append({**block, "input": json.loads(written)} if written else block)
    usage = {**first["message"]["usage"], **delta["usage"]}
    return {**first["message"], **delta["delta"], "content": content, "usage": usage}


def text_of(answer: dict[str, Any]) -> str:
    return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


def calls_of(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    blocks = [block for block in answer["content"] if block["type"] == "tool_use"]
    return [(block["name"], block["input"]) for block in blocks]


def tokens(usage: Mapping[str, Any]) -> int:
    return int(usage["input_tokens"] + usage["cache_read_input_tokens"])


def error_of(answer: Answer) -> dict[str, Any]:
    """The error, which has to have Anthropic's form and nothing else."""
    assert set(answer.json) == {"type", "error", "request_id"}
    assert answer.json["type"] == "error"
    assert answer.json["request_id"] == answer.headers["Request-Id"]
    error = answer.json["error"]
    assert set(error) in ({"type", "message"}, {"type", "message", "details"})
    assert error["message"]
    return dict(error)


async def chat_answer(client: Client, dialogue: Dialogue) -> dict[str, Any]:
    more: dict[str, Any] = {"tools": dialogue.tools} if dialogue.tools else {}
    more["chat_template_kwargs"] = dialogue.template_kwargs
    answer = await client.post(CHAT, json=body(dialogue.name, max_tokens=200, **more))
    assert answer.status == 200, answer.body
    return dict(answer.json)


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
    running = asyncio.create_task(client.post("/v1/completions", json=long_text(max_tokens=300)))
    await until(lambda: client.engine.status().num_running == 1)
    ask = {"model": "long", "messages": [{"role": "user", "content": "word " * 3000}]}
    counts = await asyncio.gather(*(client.post(COUNTING, json=ask) for _ in range(15)))
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


# -- around it -------------------------------------------------------------------------------


@pytest.mark.clients(54, 55, 58)
@pytest.mark.parametrize(
    "path", ["/messages", "/v1/v1/messages", "/v1/messages/", "/v1//messages", "/v1/messages?a=b"]
)
async def test_point_54_every_spelling_of_the_path(client: Client, path: str) -> None:
    headers = {"Anthropic-Version": "2029-01-01", "Anthropic-Beta": "a-2026-01-01,b"}
    answer = await client.post(path, json=asked(), headers=headers)
    assert text_of(answer.json) == DIALOGUES["capital"].reply


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
REFUSED: dict[str, tuple[str, str, Any, int, str]] = {
    "broken JSON": ("POST", MESSAGES, b'{"model":', 400, "invalid_request_error"),
    "no UTF-8": ("POST", MESSAGES, b'"\xff"', 400, "invalid_request_error"),
    "no messages": ("POST", COUNTING, {"model": "scripted"}, 400, "invalid_request_error"),
    "no limit": ("POST", MESSAGES, asked(max_tokens=None), 400, "invalid_request_error"),
    "an image": (
        "POST",
        MESSAGES,
        asked(messages=[{"role": "user", "content": [IMAGE]}]),
        400,
        "invalid_request_error",
    ),
    "no such model": ("POST", MESSAGES, asked(model="nobody"), 404, "not_found_error"),
    "no such model to count": ("POST", COUNTING, asked(model="nobody"), 404, "not_found_error"),
    "no such path": ("POST", MESSAGES + "/batches", {}, 404, "not_found_error"),
    "not with GET": ("GET", MESSAGES, None, 405, "invalid_request_error"),
}


@pytest.mark.clients(39, 40, 42, 47, 48, 49, 62)
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"), REFUSED.values(), ids=list(REFUSED)
)
@BOTH
async def test_point_47_refusals_in_anthropics_envelope(
    client: Client, method: str, path: str, body: Any, status: int, kind: str, stream: bool
) -> None:
    if isinstance(body, dict):
        body = json.dumps({**body, "stream": stream}).encode()
    answer = await client.send(method, path, data=body)
    assert (answer.status, error_of(answer)["type"]) == (status, kind)


@pytest.mark.clients(57)
async def test_point_57_keys(start: Start, scripted_model: Path) -> None:
    client = await start(Settings(api_keys=("key",)), Root(scripted_model, "tests", "folders"))
    for headers in ({"X-Api-Key": "key"}, {"Authorization": "Bearer key"}):
        assert (await client.post(MESSAGES, json=asked(), headers=headers)).status == 200
    for headers in ({}, {"X-Api-Key": "other"}):
        answer = await client.post(MESSAGES, json=asked(), headers=headers)
        assert (answer.status, error_of(answer)["type"]) == (401, "authentication_error")


@pytest.mark.clients(52, 53)
async def test_point_53_models_as_the_header_asks(client: Client) -> None:
    page = (await client.get("/v1/models?limit=1", headers=VERSION)).json
    assert [model["type"] for model in page["data"]] == ["model"]
    assert page["has_more"]
    assert page["first_id"] == page["last_id"] == page["data"][0]["id"]
    model = (await client.get("/v1/models/scripted", headers=VERSION)).json
    assert (model["display_name"], model["lifecycle"]) == ("scripted", "active")
    unknown = await client.get("/v1/models/nobody", headers=VERSION)
    assert (unknown.status, error_of(unknown)["type"]) == (404, "not_found_error")
    assert (await client.get("/v1/models")).json["object"] == "list"


@pytest.mark.clients(23, 79)
async def test_pings_while_nothing_comes_and_an_end_when_the_client_leaves(
    start: Start, long_model: Path
) -> None:
    def prepare(app: web.Application) -> None:
        app[KEEP_ALIVE_S] = 0.01

    client = await start(Settings(), Root(long_model, "tests", "folders"), prepare=prepare)
    await client.post(MESSAGES, json=asked(model="long", max_tokens=1))  # loads the model
    messages = [{"role": "user", "content": "word " * 20_000}]
    ask = asked(model="long", messages=messages, stream=True)
    url = f"http://127.0.0.1:{client.port}{MESSAGES}"
    async with client.session.post(url, json=ask) as response:
        received = b""
        while received.count(b"event: ping\n") < 4:
            received += await response.content.readany()
        assert received.startswith(b"event: message_start\n")
    await until(lambda: is_idle(client))


JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 0.5, 1e308, 2**70, "", "text", "\x00", "x" * 5000),
    *([], [None], [[]], [5], {}, {"a": {}}, [{}], {"type": "x"}, [{"type": "x"}]),
    *({"type": "enabled"}, {"type": "tool"}, {"format": {"type": "json_schema"}}),
    *([{"role": "user"}], [{"role": "user", "content": [{"type": "tool_result"}]}]),
    *([{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": []}]}],),
    *([{"type": "web_search_20250305"}], [{"name": "f", "input_schema": {"type": "object"}}]),
    *([{"name": "f", "input_schema": {"$ref": "#/nowhere"}, "strict": True}],),
)


@pytest.mark.clients(25, 27, 48)
async def test_point_25_any_junk_in_any_field_is_no_fault_of_ours(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    fields = sorted(MESSAGES_FIELDS)
    limit = asyncio.Semaphore(8)

    async def one(field: str, junk: Any, path: str) -> None:
        async with limit:
            answer = await client.post(path, json=asked("hi", max_tokens=2) | {field: junk})
        assert answer.status < 500, (field, junk, answer.body)
        if answer.status >= 400:
            assert error_of(answer), (field, junk)

    async with asyncio.TaskGroup() as tasks:
        for number, field in enumerate(fields):
            for place, junk in enumerate(JUNK):
                path = COUNTING if (number + place) % 4 == 0 else MESSAGES
                tasks.create_task(one(field, junk, path))
    assert text_of(await message(client, asked())) == DIALOGUES["capital"].reply
    assert not [record for record in caplog.records if record.exc_info]
