"""Ollama's chat over the scripted model, whose words are known."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import COUNT, DIALOGUES, SUM_THOUGHT
from tests.server.asking import CHAT, body
from tests.server.asking_ollama import (
    BOTH,
    COUNTS,
    DURATIONS,
    asked,
    calls_of,
    chat,
    lines_of,
)
from tests.server.running import Client, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(scripted_model: Path, long_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (scripted_model, long_model)]
    async with started() as start:
        yield await start(Settings(), *roots)


ANSWERS = {
    "capital": "The capital of France is Paris.",
    "emoji": DIALOGUES["emoji"].reply,
    "system": "Arr, I am a pirate!",
    "second turn": "Your name is Ada.",
    "without a thought": "The answer is 42.",
    "tag in text": "The tag <tool_call> starts a call.",
    "after a call": "It is 21 degrees in Paris, and the sky is clear.",
    "after two calls": DIALOGUES["after two calls"].reply,
}


@BOTH
@pytest.mark.clients(98)
async def test_point_98_answers_are_word_for_word(client: Client, stream: bool) -> None:
    for name, content in ANSWERS.items():
        answer = await chat(client, asked(name), stream=stream)
        assert answer["message"] == {"role": "assistant", "content": content}
        end = (answer["model"], answer["done"], answer["done_reason"])
        assert end == ("scripted", True, "stop")
        figures = {figure: answer[figure] for figure in (*COUNTS, *DURATIONS)}
        # Only the first answer waits for the model.
        assert figures["load_duration"] >= 0
        del figures["load_duration"]
        assert all(isinstance(each, int) and each > 0 for each in figures.values()), figures
        assert answer["total_duration"] + 2 >= sum(answer[part] for part in DURATIONS[1:])


async def test_reading_a_prompt_takes_time_from_its_first_slice_on(client: Client) -> None:
    # One slice, whose news comes at the end of the turn that read it, with the first token.
    content = " ".join(f"never sent before {number}" for number in range(40))
    ask = asked(messages=[{"role": "user", "content": content}], options={"num_predict": 1})
    answer = await chat(client, ask)
    assert answer["prompt_eval_duration"] / 1e9 > 0.0005


CALLED: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "call": ("", [("get_weather", "Paris")]),
    "two calls": ("", [("get_weather", "Paris"), ("get_weather", "Tokyo")]),
    "thought and call": ("", [("get_time", "Tokyo")]),
    "text and call": ("Let me look.", [("get_weather", "Oslo")]),
}


@BOTH
@pytest.mark.clients(98)
async def test_point_98_calls_have_objects_as_arguments(client: Client, stream: bool) -> None:
    for name, (content, calls) in CALLED.items():
        answer = await chat(client, asked(name), stream=stream)
        assert calls_of(answer) == [(tool, {"city": city}) for tool, city in calls]
        assert answer["message"]["content"].strip() == content
        assert answer["done_reason"] == "stop"
        found = answer["message"]["tool_calls"]
        assert [call["function"]["index"] for call in found] == list(range(len(calls)))
        assert len({call["id"] for call in found}) == len(calls)


async def test_a_call_that_the_limit_cuts_is_left_out(client: Client) -> None:
    options = {"temperature": 0, "num_predict": 12}
    answer = await chat(client, asked("call", options=options), stream=True)
    assert calls_of(answer) == []
    assert (answer["done_reason"], answer["eval_count"]) == ("length", 12)


@BOTH
@pytest.mark.clients(99)
async def test_point_99_a_thought_is_told_apart(client: Client, stream: bool) -> None:
    answer = await chat(client, asked("thought", think=True), stream=stream)
    assert answer["message"]["thinking"].strip() == SUM_THOUGHT
    assert answer["message"]["content"] == "The answer is 42."


@BOTH
@pytest.mark.parametrize(
    "format",
    [
        "json",
        {"type": "object", "properties": {"legs": {"type": "integer"}}, "required": ["legs"]},
    ],
    ids=["json", "schema"],
)
@pytest.mark.clients(99)
async def test_point_99_format_is_enforced(client: Client, format: Any, stream: bool) -> None:
    options = {"temperature": 0, "num_predict": 60}
    ask = asked("greeting", format=format, think=False, options=options)
    answer = await chat(client, ask, stream=stream)
    assert answer["message"]["content"].lstrip().startswith("{")
    if format != "json" and answer["done_reason"] == "stop":
        assert isinstance(json.loads(answer["message"]["content"])["legs"], int)


@pytest.mark.clients(99)
async def test_point_99_options(client: Client) -> None:
    stopped = await chat(client, asked("count", options={"temperature": 0, "stop": [", 4"]}))
    assert stopped["message"]["content"] == "1, 2, 3"
    short = await chat(client, asked("count", options={"temperature": 0, "num_predict": 5}))
    assert (short["eval_count"], short["done_reason"]) == (5, "length")
    assert COUNT.startswith(short["message"]["content"])
    ample = {"temperature": 0, "num_predict": -1, "num_ctx": 4096, "mirostat": 2, "tfs_z": 0.5}
    assert (await chat(client, asked("count", options=ample)))["message"]["content"] == COUNT


async def test_a_last_message_of_the_assistants_is_gone_on_from(client: Client) -> None:
    ask = asked("capital")
    ask["messages"].append({"role": "assistant", "content": "The capital of"})
    assert (await chat(client, ask))["message"]["content"] == " France is Paris."


@BOTH
async def test_log_probabilities_of_every_token(client: Client, stream: bool) -> None:
    ask = asked("capital", logprobs=True, top_logprobs=2, stream=stream)
    answer = await client.post("/api/chat", json=ask)
    lines = lines_of(answer) if stream else [answer.json]
    scores = [score for line in lines for score in line.get("logprobs", ())]
    text = b"".join(bytes(score["bytes"]) for score in scores).decode()
    assert text == "The capital of France is Paris."
    assert all(len(score["top_logprobs"]) == 2 for score in scores)
    assert all(score["logprob"] <= 0 for score in scores)


async def test_the_counts_are_those_of_the_other_apis(client: Client) -> None:
    """The same conversation gives the same text, call and counts."""
    for name in ("capital", "two calls", "after a call"):
        ours = await chat(client, asked(name))
        theirs = (await client.post(CHAT, json=body(name, tools=DIALOGUES[name].tools))).json
        usage, message = theirs["usage"], theirs["choices"][0]["message"]
        assert [ours[count] for count in COUNTS] == [
            usage["prompt_tokens"],
            usage["completion_tokens"],
        ]
        assert ours["message"]["content"] == (message["content"] or "")
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        assert calls_of(ours) == [(c["name"], json.loads(c["arguments"])) for c in calls]
