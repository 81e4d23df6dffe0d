"""The messages that clients send, in every form that was seen, over HTTP with real templates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import DIALOGUES
from tests.server.asking import CHAT, body, chunks_of, said, text_of
from tests.server.running import Client, Start

CAPITAL = DIALOGUES["capital"].reply
PIRATE = DIALOGUES["system"]
HELLO = {"role": "user", "content": "Hello"}


@pytest.fixture(scope="session")
def folders(scripted_model: Path, tiny_model: Callable[[str], Path]) -> list[Path]:
    return [scripted_model, tiny_model("gemma3")]


@pytest.fixture
async def client(start: Start, folders: list[Path]) -> Client:
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


async def text(client: Client, *messages: Any, **fields: Any) -> str:
    return (await said(client, CHAT, body(messages=messages, **fields), stream=False))[0]


async def prompt_tokens(client: Client, *messages: Any) -> int:
    answer = await client.post(CHAT, json=body(messages=messages, max_tokens=1))
    assert answer.status == 200, answer.body
    return int(answer.json["usage"]["prompt_tokens"])


@pytest.mark.clients(30)
async def test_point_30_a_developer_is_the_system(client: Client) -> None:
    system, user = PIRATE.messages
    assert await text(client, {**system, "role": "developer"}, user) == PIRATE.reply
    assert await text(client, user) != PIRATE.reply


@pytest.mark.clients(31)
@pytest.mark.parametrize("role", ["system", "developer"])
async def test_point_31_instructions_anywhere_reach_a_strict_template(
    client: Client, role: str
) -> None:
    """The template knows one leading system message and strict turns."""
    hi, bye = {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Bye"}
    brief, kind = ({"role": role, "content": text} for text in ("Be brief.", "Be kind."))
    both = {"role": "system", "content": "Be brief.\n\nBe kind."}
    asked = [
        body(model="tiny-gemma3", max_tokens=12, messages=messages, cache=False)
        for messages in ([both, HELLO, hi, bye], [brief, HELLO, hi, kind, bye])
    ]
    plain, scattered = [await client.post(CHAT, json=ask) for ask in asked]
    assert plain.status == scattered.status == 200
    assert scattered.json["usage"] == plain.json["usage"]
    assert scattered.json["choices"] == plain.json["choices"]


@pytest.mark.clients(31)
async def test_point_31_instructions_anywhere_are_kept_where_they_may_be(client: Client) -> None:
    system, user = PIRATE.messages
    assert await text(client, system, {**system, "content": ""}, user)
    assert await prompt_tokens(client, HELLO, system, user) > await prompt_tokens(
        client, HELLO, user
    )


@pytest.mark.clients(32)
@pytest.mark.parametrize("name", ["system", "second turn"])
async def test_point_32_one_text_part_is_the_text(client: Client, name: str) -> None:
    messages = [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        for message in DIALOGUES[name].messages
    ]
    assert await text(client, *messages) == DIALOGUES[name].reply


@pytest.mark.clients(32)
@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
async def test_point_32_an_unknown_part_is_named(client: Client, role: str) -> None:
    parts = [{"type": "text", "text": "hi"}, {"type": "hologram", "hologram": {}}]
    answer = await client.post(CHAT, json=body(messages=[HELLO, {"role": role, "content": parts}]))
    assert answer.status == 400
    assert answer.error["param"] == "messages[1].content[1].type"
    assert "hologram" in answer.error["message"]


QUESTION, CALLS, RESULT = DIALOGUES["after a call"].messages


@pytest.mark.clients(33)
async def test_point_33_calls_without_content_and_empty_results(client: Client) -> None:
    absent = {name: value for name, value in CALLS.items() if name != "content"}
    empty = await prompt_tokens(client, QUESTION, CALLS, RESULT)
    for calls in (absent, {**absent, "content": None}, {**absent, "content": []}):
        assert await prompt_tokens(client, QUESTION, calls, RESULT) == empty
    assert await prompt_tokens(client, QUESTION, {**absent, "content": " "}, RESULT) >= empty
    result = [{"type": "text", "text": RESULT["content"]}]
    assert await prompt_tokens(client, QUESTION, CALLS, {**RESULT, "content": result}) == empty
    silent = await prompt_tokens(client, QUESTION, CALLS, {**RESULT, "content": ""})
    assert silent < empty
    assert await prompt_tokens(client, QUESTION, CALLS, {**RESULT, "content": []}) == silent


@pytest.mark.clients(20, 33)
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_point_20_thoughts_of_earlier_turns_are_taken_back(client: Client, name: str) -> None:
    first, answer, second = DIALOGUES["second turn"].messages
    thoughtful = {**answer, name: "She says her name.", "tool_calls": None, "refusal": None}
    assert await text(client, first, thoughtful, second) == DIALOGUES["second turn"].reply


@pytest.mark.clients(43)
@pytest.mark.parametrize(
    "asked",
    [
        {"input": "What is the capital of France?"},
        {"input": [{"role": "user", "content": "What is the capital of France?"}]},
        {
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "What is the capital of France?"}],
                }
            ],
            "tools": [],
            "max_output_tokens": 50,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "text"}},
        },
    ],
    ids=["text", "message", "items"],
)
async def test_point_43_a_body_of_the_responses_api(client: Client, asked: dict[str, Any]) -> None:
    ask = {"model": "scripted", "temperature": 0, **asked}
    whole = await client.post(CHAT, json=ask)
    assert whole.json["object"] == "chat.completion"
    assert whole.json["choices"][0]["message"]["content"] == CAPITAL
    streamed = chunks_of(await client.post(CHAT, json={**ask, "stream": True}))
    assert streamed[0]["object"] == "chat.completion.chunk"
    assert text_of(streamed) == CAPITAL


@pytest.mark.clients(43)
async def test_point_43_instructions_are_the_system(client: Client) -> None:
    system, user = PIRATE.messages
    ask = {"model": "scripted", "temperature": 0, "input": [user]}
    answer = await client.post(CHAT, json={**ask, "instructions": system["content"]})
    assert answer.json["choices"][0]["message"]["content"] == PIRATE.reply


@pytest.mark.clients(43)
async def test_point_43_flat_tools(client: Client) -> None:
    call = DIALOGUES["call"]
    tools = [{"type": "function", **tool["function"]} for tool in call.tools]
    ask = {"model": "scripted", "temperature": 0, "input": call.messages[0]["content"]}
    answer = await client.post(CHAT, json={**ask, "tools": tools})
    [choice] = answer.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    [made] = choice["message"]["tool_calls"]
    assert made["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
