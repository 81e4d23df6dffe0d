"""What clients send and what they need back, by the numbers of the client conformance list: chat
and text completions with real models, whose words are known."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from maxi_mlx.api.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS
from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import STRATEGIES, Settings
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES, TOOLS
from tests.server.asking import (
    CHAT,
    TEXT,
    body,
    chunks_of,
    is_idle,
    long_text,
    reasons_of,
    said,
    text_of,
    until,
)
from tests.server.running import Client, Start

KEEP_ALIVE = b": keep-alive\n\n"
CAPITAL = DIALOGUES["capital"].reply
TEXT_BODY = {"model": "scripted", "prompt": "The capital of France is", "temperature": 0}


@pytest.fixture(scope="session")
def folders(
    scripted_model: Path, long_model: Path, tiny_model: Callable[[str], Path]
) -> list[Path]:
    return [scripted_model, long_model, tiny_model("gemma3"), tiny_model("llama")]


@pytest.fixture
async def client(start: Start, folders: list[Path]) -> Client:
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


async def text(client: Client, ask: dict[str, Any], *, path: str = CHAT) -> str:
    return (await said(client, path, ask, stream=False))[0]


ENDS = {
    "by itself": ({}, "stop"),
    "stop string": ({"stop": "is"}, "stop"),
    "length": ({"max_tokens": 1}, "length"),
}


@pytest.mark.clients(3, 8, 9, 10)
@pytest.mark.parametrize(("fields", "reason"), ENDS.values(), ids=ENDS)
async def test_point_3_every_answer_of_a_chat_ends_once(
    client: Client, fields: dict[str, Any], reason: str
) -> None:
    chunks = chunks_of(await client.post(CHAT, json=body(n=3, stream=True, **fields)))
    for choice in range(3):
        parts = [part for c in chunks for part in c["choices"] if part["index"] == choice]
        first, *middle, last = parts
        assert first["delta"] == {"role": "assistant", "content": ""}
        assert all(set(part["delta"]) == {"content"} for part in middle)
        assert (last["delta"], last["finish_reason"]) == ({}, reason)
        assert [part["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 1)


@pytest.mark.clients(3, 6, 7, 10, 22)
@pytest.mark.parametrize(("fields", "reason"), ENDS.values(), ids=ENDS)
async def test_point_6_usage_of_text_completions_comes_last_and_once(
    client: Client, fields: dict[str, Any], reason: str
) -> None:
    options = {"n": 2, "stream": True, "stream_options": {"include_usage": True}, "cache": False}
    prompts = ["The capital of France is", "1, 2, 3,"]
    ask = {**TEXT_BODY, "prompt": prompts, **options, **fields}
    chunks = chunks_of(await client.post(TEXT, json=ask))
    assert [reasons_of(chunks, choice=choice) for choice in range(4)] == [[reason]] * 4
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    assert {c["object"] for c in chunks} == {"text_completion"}
    assert chunks[-1]["choices"] == []
    assert not any("usage" in chunk for chunk in chunks[:-1])
    ask = {**ask, "stream": False, "stream_options": None}
    whole = (await client.post(TEXT, json=ask)).json
    assert chunks[-1]["usage"] == whole["usage"]
    assert whole["usage"]["total_tokens"] > whole["usage"]["prompt_tokens"] > 0


@pytest.mark.clients(13, 35)
@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False},
        {"tools": None, "tool_choice": None},
        {"tool_choice": "auto"},
        {"tool_choice": "none"},
        {"tools": TOOLS, "tool_choice": "none"},
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}
        | {"tool_choice": "none"},
    ],
    ids=lambda fields: json.dumps(fields)[:60],
)
async def test_point_35_tools_that_nobody_may_call(client: Client, fields: dict[str, Any]) -> None:
    assert await text(client, body(**fields)) == CAPITAL


@pytest.mark.clients(13, 29)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"regex": "("}, "regex"),
        ({"n": 0}, "n"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"modalities": ["audio"]}, "modalities"),
    ],
    ids=lambda fields: json.dumps(fields)[:40],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.usefixtures("patient_door")
async def test_point_29_what_is_not_done_is_refused(
    client: Client, fields: dict[str, Any], param: str, stream: bool
) -> None:
    answer = await client.post(CHAT, json=body(stream=stream, **fields))
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.clients(14)
async def test_point_14_the_first_bytes_leave_before_the_prompt_is_read(client: Client) -> None:
    await client.post(TEXT, json=long_text(max_tokens=1))  # loads the model
    messages = [{"role": "user", "content": "word " * 50_000}]
    url = f"http://127.0.0.1:{client.port}{CHAT}"
    ask = long_text(messages=messages, stream=True)
    async with client.session.post(url, json=ask) as response:
        first = KEEP_ALIVE  # which may come before it where the machine is busy
        while first == KEEP_ALIVE:
            first = await response.content.readuntil(b"\n\n")
        assert b'"delta":{"role":"assistant","content":""}' in first
        with pytest.raises(TimeoutError):  # the prompt is being read
            async with asyncio.timeout(0.2):
                await response.content.readany()
    await until(lambda: is_idle(client))


@pytest.mark.clients(16, 17, 19)
@pytest.mark.parametrize("name", ["emoji", "japanese"])
async def test_point_16_lines_of_a_stream(client: Client, name: str) -> None:
    answer = await client.post(CHAT, json=body(name, stream=True, logprobs=True))
    assert re.fullmatch(rb"(data: \{[^\r\n]*\}\n\n)+data: \[DONE\]\n\n", answer.body)
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert "Content-Encoding" not in answer.headers


@pytest.mark.clients(19)
@pytest.mark.parametrize("name", ["emoji", "japanese"])
async def test_point_19_characters_of_several_tokens_come_whole(client: Client, name: str) -> None:
    reply = DIALOGUES[name].reply
    for fields in ({}, {"n": 2}, {"stop": reply[-1]}, {"logprobs": True}):
        chunks = chunks_of(await client.post(CHAT, json=body(name, stream=True, **fields)))
        pieces = [part["delta"].get("content", "") for c in chunks for part in c["choices"]]
        assert "\ufffd" not in "".join(pieces)
        assert text_of(chunks) == (reply[:-1] if "stop" in fields else reply)
        assert sum(bool(piece) for piece in pieces) > 5


@pytest.mark.slow
@pytest.mark.clients(21)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_point_21_many_stop_strings_and_none(client: Client, stream: bool) -> None:
    many = [*(f"{number}, x" for number in range(63)), "19,"]
    cut = (COUNT.partition("19,")[0], "stop")
    assert (await said(client, CHAT, body("count", stop=many), stream=stream))[:2] == cut
    for stop in (None, [], ["51"]):
        whole = await said(client, CHAT, body("count", stop=stop), stream=stream)
        assert whole[:2] == (COUNT, "stop")


@pytest.mark.clients(26)
async def test_point_26_every_shape_of_a_prompt(client: Client, scripted_model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(scripted_model / "tokenizer.json"))
    known = [COMPLETIONS["capital"], COMPLETIONS["digits"]]
    texts = [completion.prompt for completion in known]
    ids = [tokenizer.encode(prompt).ids for prompt in texts]
    for prompt in (texts, ids, texts[0], ids[0]):
        is_single = prompt in (texts[0], ids[0])
        got = (await client.post(TEXT, json={**TEXT_BODY, "prompt": prompt, "n": 2})).json
        expected = [completion.reply for completion in known for _ in range(2)]
        assert [choice["text"] for choice in got["choices"]] == expected[: 2 if is_single else 4]
        assert [choice["index"] for choice in got["choices"]] == [*range(2 if is_single else 4)]
        assert got["usage"]["prompt_tokens"] == sum(map(len, ids[: 1 if is_single else 2]))


@pytest.mark.clients(27)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_point_27_null_for_every_optional_field(client: Client, stream: bool) -> None:
    nothing = dict.fromkeys(CHAT_FIELDS.keys() - {"messages"}) | {"temperature": 0}
    ask = {**nothing, "model": "scripted", "messages": body()["messages"]}
    assert await said(client, CHAT, ask, stream=stream) == (CAPITAL, "stop", 10)
    nothing = dict.fromkeys(COMPLETION_FIELDS.keys() - {"prompt"})
    assert (await said(client, TEXT, {**nothing, **TEXT_BODY}, stream=stream))[0] == " Paris."


@pytest.mark.clients(12, 28)
async def test_point_28_extras_change_nothing(client: Client) -> None:
    question = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    extras = {
        "store": True,
        "metadata": {"a": "b"},
        "user": "ann",
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "client_metadata": {"x": 1},
        "draft_model": "tiny",
        "verbosity": "low",
        "parallel_tool_calls": False,
        "prediction": {"type": "content", "content": "Hi there!"},
        "nobody_knows": [1, {"2": None}],
    }
    messages = [{"role": "user", "content": question, "cache_control": None, "id": "m1"}]
    assert await text(client, body(messages=messages, **extras)) == DIALOGUES["hi"].reply


@pytest.mark.slow
@pytest.mark.clients(34)
@pytest.mark.parametrize(
    ("fields", "num_tokens"),
    [
        ({"max_completion_tokens": 3, "max_tokens": 9}, 3),
        ({"max_completion_tokens": 9, "max_tokens": 3}, 9),
        ({"max_completion_tokens": None, "max_tokens": 3}, 3),
        ({"max_completion_tokens": -1, "max_tokens": 3}, 141),
        ({"max_tokens": -1}, 141),
        ({"max_completion_tokens": None}, 141),
        ({"max_tokens": 1_000_000}, 141),
    ],
    ids=str,
)
async def test_point_34_how_long_an_answer_may_be(
    client: Client, fields: dict[str, Any], num_tokens: int
) -> None:
    reply, reason, count = await said(client, CHAT, body("count", **fields), stream=False)
    assert count == num_tokens
    assert reason == ("stop" if num_tokens == 141 else "length")
    assert COUNT.startswith(reply)


@pytest.mark.clients(36)
@pytest.mark.parametrize("wanted", [None, {"type": "text"}])
async def test_point_36_plain_text_is_a_format(client: Client, wanted: object) -> None:
    assert await text(client, body(response_format=wanted)) == CAPITAL


@pytest.mark.clients(37)
async def test_point_37_bodies_over_a_megabyte(client: Client) -> None:
    ask = body(tools=[*TOOLS] * 500, tool_choice="none", metadata={"x": "é" * 1_000_000})
    answer = await client.post(CHAT, data=io.BytesIO(json.dumps(ask).encode()))
    assert answer.json["choices"][0]["message"]["content"] == CAPITAL


@pytest.mark.clients(44)
async def test_point_44_the_text_between_two(client: Client) -> None:
    middle = COMPLETIONS["middle"]
    ask = {"prompt": middle.prompt, "suffix": middle.suffix, "temperature": 0}
    for stream in (False, True):
        got = await said(client, TEXT, {**ask, "model": "scripted"}, stream=stream)
        assert got[:2] == ("a + b", "stop")
    answer = await client.post(TEXT, json={**ask, "model": "tiny-llama"})
    assert (answer.status, answer.error["param"]) == (400, "suffix")


@pytest.mark.clients(45)
async def test_point_45_echo_logprobs_and_best_of(client: Client) -> None:
    whole = "The capital of France is Paris."
    for stream in (False, True):
        ask = {**TEXT_BODY, "echo": True}
        assert (await said(client, TEXT, ask, stream=stream))[0] == whole
        assert (await said(client, TEXT, {**TEXT_BODY, "best_of": 1}, stream=stream))[
            0
        ] == " Paris."
    for fields, param in (
        ({"best_of": 3}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"logprobs": 21}, "logprobs"),
    ):
        answer = await client.post(TEXT, json={**TEXT_BODY, **fields})
        assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.clients(48)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_point_48_a_full_queue_says_when_to_come_back(
    start: Start, long_model: Path, stream: bool
) -> None:
    scheduler = replace(STRATEGIES["balanced"], max_running_rows=1, max_waiting_requests=1)
    client = await start(Settings(scheduler=scheduler), Root(long_model, "tests", "folders"))
    first = asyncio.create_task(client.post(TEXT, json=long_text()))
    await until(lambda: client.engine.status().num_running == 1)
    second = asyncio.create_task(client.post(TEXT, json=long_text(max_tokens=3)))
    await until(lambda: client.engine.status().num_waiting == 1)
    refused = await client.post(TEXT, json=long_text(stream=stream))
    assert refused.status == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert (refused.error["type"], refused.error["code"]) == ("rate_limit_error", "overloaded")
    first.cancel()
    assert (await second).status == 200  # its turn came when the first had gone
    assert (await client.post(TEXT, json=long_text(max_tokens=3))).status == 200


@pytest.mark.clients(58)
@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21", "nonsense"])
async def test_point_58_any_version_header_is_taken(client: Client, version: str) -> None:
    headers = {"anthropic-version": version, "anthropic-beta": "a-2025-01-01,b"}
    answer = await client.post(CHAT, json=body("hi"), headers=headers)
    assert answer.json["choices"][0]["message"]["content"] == DIALOGUES["hi"].reply
    models = (await client.get("/v1/models", headers=headers)).json
    assert (models["data"][0]["type"], models["has_more"]) == ("model", False)
