"""Ollama's API over the scripted model, whose words are known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import KEEP_ALIVE_S
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES, SUM_THOUGHT
from tests.server.asking import CHAT, body, is_idle, until
from tests.server.running import Answer, Client, Start

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
COUNTS = ("prompt_eval_count", "eval_count")
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


@pytest.fixture(scope="session")
def folders(scripted_model: Path, long_model: Path) -> list[Path]:
    return [scripted_model, long_model]


@pytest.fixture
async def client(start: Start, folders: list[Path]) -> Client:
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


def turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of OpenAI's form in Ollama's: without ids, and with arguments as objects."""
    if message["role"] == "tool":
        return {"role": "tool", "tool_name": "get_weather", "content": message["content"]}
    calls = [call["function"] for call in message.get("tool_calls", ())]
    called = [
        {"function": {"name": each["name"], "arguments": json.loads(each["arguments"])}}
        for each in calls
    ]
    more = {"tool_calls": called} if called else {}
    return {"role": message["role"], "content": message["content"], **more}


def asked(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    dialogue = DIALOGUES[name]
    ask: dict[str, Any] = {
        "model": "scripted",
        "messages": [turn(message) for message in dialogue.messages],
        "options": {"temperature": 0},
        "tools": list(dialogue.tools),
    }
    if dialogue.template_kwargs == {"enable_thinking": False}:
        ask["think"] = False
    return {**ask, **more}


def lines_of(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.splitlines()]


async def chat(client: Client, ask: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """The answer, whole or joined from its stream."""
    answer = await client.post("/api/chat", json={**ask, "stream": stream})
    if not stream:
        assert answer.status == 200, answer.body
        assert answer.headers["Content-Type"].startswith("application/json")
        return dict(answer.json)
    *lines, last = lines_of(answer)
    assert not any(line["done"] for line in lines)
    said = [line["message"] for line in (*lines, last)]
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = "".join(each["content"] for each in said)
    if thinking := "".join(each.get("thinking", "") for each in said):
        message["thinking"] = thinking
    if calls := [call for each in said for call in each.get("tool_calls", ())]:
        message["tool_calls"] = calls
    return {**last, "message": message}


async def generated(client: Client, ask: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    sent = {"model": "scripted", "options": {"temperature": 0}, **ask, "stream": stream}
    answer = await client.post("/api/generate", json=sent)
    if not stream:
        assert answer.status == 200, answer.body
        return dict(answer.json)
    lines = lines_of(answer)
    joined = {"response": "".join(line["response"] for line in lines)}
    if thinking := "".join(line.get("thinking", "") for line in lines):
        joined["thinking"] = thinking
    return {**lines[-1], **joined}


def calls_of(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    calls = answer["message"].get("tool_calls", ())
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


def error_of(answer: Answer) -> str:
    """The error, which has to have Ollama's form and nothing else."""
    assert set(answer.json) == {"error"}
    assert isinstance(answer.json["error"], str)
    return str(answer.json["error"])


# -- chats -----------------------------------------------------------------------------------


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
        assert all(isinstance(each, int) and each > 0 for each in figures.values()), figures
        parts = sum(answer[part] for part in DURATIONS[1:])
        assert answer["total_duration"] == pytest.approx(parts, abs=2)


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


# -- generate --------------------------------------------------------------------------------


@BOTH
@pytest.mark.clients(98)
async def test_point_98_generate_asks_as_a_user(client: Client, stream: bool) -> None:
    answer = await generated(
        client, {"prompt": "Who are you?", "system": "You are a pirate."}, stream=stream
    )
    assert answer["response"] == "Arr, I am a pirate!"
    assert answer["done_reason"] == "stop"


@BOTH
async def test_context_goes_on_with_the_conversation(client: Client, stream: bool) -> None:
    first = await generated(client, {"prompt": "My name is Ada."}, stream=stream)
    assert first["response"] == "Nice to meet you, Ada."
    again = {"prompt": "What is my name?", "context": first["context"]}
    assert (await generated(client, again, stream=stream))["response"] == "Your name is Ada."


@BOTH
async def test_raw_prompts_and_suffixes_are_read_as_they_are(client: Client, stream: bool) -> None:
    capital, middle = COMPLETIONS["capital"], COMPLETIONS["middle"]
    answer = await generated(client, {"prompt": capital.prompt, "raw": True}, stream=stream)
    assert answer["response"] == capital.reply
    assert "context" not in answer
    ask = {"prompt": middle.prompt, "suffix": middle.suffix}
    assert (await generated(client, ask, stream=stream))["response"] == middle.reply


@BOTH
async def test_generate_thinks(client: Client, stream: bool) -> None:
    ask = {"prompt": "What is 17 + 25?", "think": True}
    answer = await generated(client, ask, stream=stream)
    assert (answer["thinking"].strip(), answer["response"]) == (SUM_THOUGHT, "The answer is 42.")


@pytest.mark.parametrize(
    ("path", "nothing", "content"),
    [
        ("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
        ("/api/generate", {"prompt": ""}, {"response": ""}),
        ("/api/generate", {}, {"response": ""}),
    ],
    ids=["chat", "generate", "no prompt"],
)
@pytest.mark.clients(98)
async def test_point_98_a_request_without_a_prompt_loads(
    client: Client, path: str, nothing: dict[str, Any], content: dict[str, Any]
) -> None:
    assert (await client.get("/api/ps")).json == {"models": []}
    answer = (await client.post(path, json={"model": "scripted:latest", **nothing})).json
    assert answer.pop("created_at")
    assert answer == {"model": "scripted:latest", **content, "done": True, "done_reason": "load"}
    [model] = (await client.get("/api/ps")).json["models"]
    assert model["name"] == "scripted"
    for nought in (0, "0", "0s"):
        ask = {"model": "scripted", "keep_alive": nought, **nothing}
        assert (await client.post(path, json=ask)).json["done_reason"] == "unload"
    missing = await client.post(path, json={"model": "absent", "keep_alive": 0, **nothing})
    assert missing.status == 404


@pytest.mark.clients(99)
async def test_point_99_keep_alive_is_taken(client: Client) -> None:
    for keep_alive in (-1, 0, 300, 0.5, "5m", "-1", "1h30m"):
        answer = await chat(client, asked("hi", keep_alive=keep_alive))
        assert answer["message"]["content"] == DIALOGUES["hi"].reply


# -- streams ---------------------------------------------------------------------------------


@pytest.mark.clients(98)
async def test_point_98_the_default_is_a_stream(client: Client) -> None:
    assert len(lines_of(await client.post("/api/chat", json=asked("count")))) > 10


async def test_a_silent_stream_is_kept_alive_by_lines_that_say_nothing(
    start: Start, folders: list[Path]
) -> None:
    def hurry(app: web.Application) -> None:
        app[KEEP_ALIVE_S] = 0.01

    roots = [Root(folder, "tests", "folders") for folder in folders]
    client = await start(Settings(), *roots, prepare=hurry)
    prompt = "hello " * 800
    ask = {"model": "long", "prompt": prompt, "raw": True, "options": {"num_predict": 2}}
    lines = lines_of(await client.post("/api/generate", json=ask))
    silent = [line for line in lines if line["response"] == "" and not line["done"]]
    assert silent
    assert all(line["model"] == "long" for line in lines)


async def test_a_client_that_leaves_frees_its_row(client: Client) -> None:
    ask = {"model": "long", "prompt": "hello", "raw": True, "options": {"num_predict": -1}}
    url = f"http://127.0.0.1:{client.port}/api/generate"
    async with client.session.post(url, json=ask) as response:
        await response.content.readline()
        assert not is_idle(client)
    await until(lambda: is_idle(client))


async def test_a_stream_that_breaks_ends_with_an_error(client: Client) -> None:
    ask = {"model": "long", "prompt": "hello", "raw": True, "options": {"num_predict": -1}}

    async def ended() -> list[dict[str, Any]]:
        return lines_of(await client.post("/api/generate", json=ask))

    task = asyncio.create_task(ended())
    await until(lambda: client.engine.status().num_running > 0)
    await asyncio.sleep(0.2)
    await client.engine.close()
    last = (await task)[-1]
    assert set(last) == {"error"}
    assert isinstance(last["error"], str)


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("/api/chat", {"model": "absent"}, "'absent' was not found"),
        ("/api/chat", {"messages": [{"role": "user", "images": ["aGk="]}]}, "takes text only"),
        ("/api/chat", {"messages": [{"role": "oracle"}]}, "must be system, user"),
        ("/api/chat", {"messages": [{"role": "assistant", "content": "x"}]}, "nothing to answer"),
        ("/api/chat", {"messages": "hello"}, "'messages' must be a list"),
        ("/api/chat", {"format": "xml"}, '"json" or a JSON schema'),
        ("/api/chat", {"think": "hard"}, "'think' must be"),
        ("/api/chat", {"options": {"temperature": 9}}, "'options.temperature' must be"),
        ("/api/chat", {"options": {"stop": [""]}}, "'options.stop[0]' is an empty"),
        ("/api/generate", {"prompt": "x", "template": "{{ .Prompt }}"}, "'template' is not served"),
        ("/api/generate", {"prompt": "x", "images": ["aGk="]}, "takes text only"),
        ("/api/generate", {"prompt": "x", "context": [1, 2]}, "'context' is not one"),
        ("/api/generate", {"prompt": "x", "raw": True, "system": "y"}, "'system' is for a conv"),
        ("/api/embed", {"input": "x"}, "can't do this"),
        ("/api/embed", {}, "'input' is missing"),
        ("/api/show", {"model": ""}, "'model' is missing"),
        ("/api/show", {"model": "absent"}, "'absent' was not found"),
        ("/api/pull", {"model": "absent"}, "can't be fetched"),
        ("/api/copy", {"source": "scripted", "destination": "b"}, "never changes"),
        ("/api/create", {"from": "scripted"}, "never changes"),
        ("/api/push", {}, "never changes"),
    ],
)
@pytest.mark.clients(47, 101)
async def test_points_47_and_101_errors_are_a_text(
    client: Client, path: str, more: dict[str, Any], words: str
) -> None:
    ask = asked("hi") if path == "/api/chat" else {"model": "scripted"}
    answer = await client.post(path, json={**ask, **more})
    assert answer.status in (400, 404)
    assert words in error_of(answer)


@pytest.mark.clients(101)
async def test_point_101_nothing_is_deleted(client: Client) -> None:
    answer = await client.send("DELETE", "/api/delete", json={"model": "scripted"})
    assert (answer.status, "never changes" in error_of(answer)) == (400, True)
    names = [model["name"] for model in (await client.get("/api/tags")).json["models"]]
    assert "scripted" in names


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/chat", 405),
        ("POST", "/api/tags", 405),
        ("GET", "/api/absent", 404),
        ("POST", "/v1/api/absent/", 404),
        ("HEAD", "/api/blobs/sha256:00", 404),
    ],
)
@pytest.mark.clients(62)
async def test_point_62_wrong_paths_and_methods(
    client: Client, method: str, path: str, status: int
) -> None:
    answer = await client.send(method, path)
    assert answer.status == status
    if method != "HEAD":
        assert error_of(answer)


async def test_broken_json_is_a_400(client: Client) -> None:
    for path in ("/api/chat", "/api/generate", "/api/show", "/api/pull", "/api/embed"):
        answer = await client.post(path, data=b'{"model": ')
        assert answer.status == 400
        assert error_of(answer)
