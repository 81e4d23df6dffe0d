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
from maxi_mlx.catalog.pull.embedded import model_folder
from maxi_mlx.catalog.pull.folder import NEEDED_FILES
from maxi_mlx.catalog.pull.source import SMOLLM2
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.keys import KEEP_ALIVE_S
from maxi_mlx.server.ollama_pull import LineProgress
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES, SUM_THOUGHT
from tests.server.asking import CHAT, body, is_idle, until
from tests.server.running import Answer, Client, Start
from tests.vectors import tiny
from tests.vectors.conftest import needs_extra

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


@BOTH
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("capital", "The capital of France is Paris."),
        ("emoji", DIALOGUES["emoji"].reply),
        ("system", "Arr, I am a pirate!"),
        ("second turn", "Your name is Ada."),
        ("without a thought", "The answer is 42."),
        ("tag in text", "The tag <tool_call> starts a call."),
        ("after a call", "It is 21 degrees in Paris, and the sky is clear."),
        ("after two calls", DIALOGUES["after two calls"].reply),
    ],
)
@pytest.mark.clients(98)
async def test_point_98_answers_are_word_for_word(
    client: Client, name: str, content: str, stream: bool
) -> None:
    answer = await chat(client, asked(name), stream=stream)
    assert answer["message"] == {"role": "assistant", "content": content}
    assert (answer["model"], answer["done"], answer["done_reason"]) == ("scripted", True, "stop")
    assert all(isinstance(answer[name], int) and answer[name] > 0 for name in (*COUNTS, *DURATIONS))
    parts = DURATIONS[1:]
    assert answer["total_duration"] == pytest.approx(sum(answer[part] for part in parts), abs=2)


@BOTH
@pytest.mark.parametrize(
    ("name", "content", "calls"),
    [
        ("call", "", [("get_weather", "Paris")]),
        ("two calls", "", [("get_weather", "Paris"), ("get_weather", "Tokyo")]),
        ("thought and call", "", [("get_time", "Tokyo")]),
        ("text and call", "Let me look.", [("get_weather", "Oslo")]),
    ],
)
@pytest.mark.clients(98)
async def test_point_98_calls_have_objects_as_arguments(
    client: Client, name: str, content: str, calls: list[tuple[str, str]], stream: bool
) -> None:
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


@pytest.mark.parametrize("keep_alive", [-1, 0, 300, "5m", "-1", "1h30m"])
@pytest.mark.clients(99)
async def test_point_99_keep_alive_is_taken(client: Client, keep_alive: float | str) -> None:
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
    prompt = "hello " * 3000
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


# -- models ----------------------------------------------------------------------------------


@pytest.mark.clients(95)
async def test_point_95_the_version_is_one_that_clients_take(client: Client) -> None:
    version = (await client.get("/api/version")).json["version"]
    assert tuple(map(int, version.split("."))) >= (0, 13, 4)


@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags"])
async def test_heads(client: Client, path: str) -> None:
    assert (await client.send("HEAD", path)).status == 200


@pytest.mark.clients(96)
async def test_point_96_tags(client: Client) -> None:
    models = {model["name"]: model for model in (await client.get("/api/tags")).json["models"]}
    assert set(models) == {"scripted", "long"}
    model = models["scripted"]
    assert model["model"] == "scripted"
    assert len(bytes.fromhex(model["digest"])) == 32
    assert model["size"] > 0
    assert model["modified_at"].endswith("Z")
    details = {"format", "family", "families", "parameter_size", "quantization_level"}
    assert details <= set(model["details"])
    assert models["scripted"]["digest"] != models["long"]["digest"]


@pytest.mark.parametrize("field", ["model", "name"])
@pytest.mark.parametrize("name", ["scripted", "scripted:latest"])
@pytest.mark.clients(96, 97)
async def test_points_96_and_97_show(client: Client, field: str, name: str) -> None:
    shown = (await client.post("/api/show", json={field: name})).json
    assert set(shown["capabilities"]) == {"completion", "tools", "thinking", "insert"}
    architecture = shown["model_info"]["general.architecture"]
    context = shown["model_info"][f"{architecture}.context_length"]
    assert shown["parameters"] == f"num_ctx {context}"
    assert ".Suffix" in shown["template"]
    assert "messages" in shown["template"]


@pytest.mark.clients(96)
async def test_point_96_a_model_without_a_template_can_do_less(client: Client) -> None:
    shown = (await client.post("/api/show", json={"model": "long"})).json
    assert shown["capabilities"] == ["completion"]
    assert ".Suffix" not in shown["template"]


@pytest.mark.parametrize("name", ["scripted", "scripted:latest", "SCRIPTED"])
@pytest.mark.clients(100)
async def test_point_100_pulling_what_is_there(client: Client, name: str) -> None:
    lines = lines_of(await client.post("/api/pull", json={"model": name}))
    assert lines[-1] == {"status": "success"}
    whole = await client.post("/api/pull", json={"name": name, "stream": False})
    assert whole.json == {"status": "success"}


@pytest.fixture
def pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that can be fetched is in its place, where the server doesn't look."""
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path))
    folder = model_folder()
    folder.mkdir(parents=True)
    for file in NEEDED_FILES:
        (folder / file).touch()


@BOTH
@pytest.mark.parametrize("name", ["smollm2", "SmolLM2:135m"])
@pytest.mark.usefixtures("pulled")
async def test_pulling_the_one_that_can_be_fetched(client: Client, name: str, stream: bool) -> None:
    answer = await client.post("/api/pull", json={"model": name, "stream": stream})
    if not stream:
        assert answer.json == {"status": "success"}
        return
    lines = [line["status"] for line in lines_of(answer)]
    assert lines == ["pulling manifest", f"its name here is {SMOLLM2.name}", "success"]


@BOTH
async def test_a_pull_that_fails_says_why(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    (tmp_path / "models").touch()  # a file where a folder has to be
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path))
    answer = await client.post("/api/pull", json={"model": "smollm2", "stream": stream})
    error = lines_of(answer)[-1]["error"] if stream else error_of(answer)
    assert "Could not make" in error


def test_progress_is_told_in_lines() -> None:
    told: list[Any] = []
    progress = LineProgress(told.append)
    progress.start("downloading", 100, unit="bytes", already=20)
    for _ in range(80):
        progress.advance(1)
    progress.done()
    progress.start("converting", 7, unit="tensors")
    lines = [json.loads(line) for line in told]
    assert lines[0] == {"status": "downloading", "completed": 20, "total": 100}
    assert lines[-2] == {"status": "downloading", "completed": 100, "total": 100}
    assert lines[-1] == {"status": "converting"}
    assert len(lines) < 10


async def test_embedding_nothing_needs_no_model(client: Client) -> None:
    for nothing in ("", []):
        answer = await client.post("/api/embed", json={"model": "scripted", "input": nothing})
        assert answer.json["embeddings"] == []
    answer = await client.post("/api/embeddings", json={"model": "scripted", "prompt": ""})
    assert answer.json == {"embedding": []}


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    tiny.build(folder / "tiny-bert", "bert")
    return folder


@needs_extra
async def test_vectors_are_those_of_the_openai_api(start: Start, vectors: Path) -> None:
    client = await start(Settings(), Root(vectors, "tests", "folders"))
    texts = ["the ships that passed", "a blue book"]
    ask = {"model": "tiny-bert", "input": texts}
    theirs = (await client.post("/v1/embeddings", json=ask)).json
    rows = [item["embedding"] for item in theirs["data"]]
    ours = (await client.post("/api/embed", json=ask)).json
    assert ours["embeddings"] == rows
    assert ours["model"] == "tiny-bert"
    assert ours["prompt_eval_count"] == theirs["usage"]["prompt_tokens"]
    assert ours["total_duration"] > 0
    older = {"model": "tiny-bert:latest", "prompt": texts[0]}
    [first] = (await client.post("/api/embed", json={**ask, "input": texts[0]})).json["embeddings"]
    assert (await client.post("/api/embeddings", json=older)).json == {"embedding": first}
    shown = (await client.post("/api/show", json={"model": "tiny-bert"})).json
    assert shown["capabilities"] == ["embedding"]
    # Ollama cuts what is too long, unless it is told not to.
    long = {"model": "tiny-bert", "input": "ships " * 5000}
    assert len((await client.post("/api/embed", json=long)).json["embeddings"]) == 1
    refused = await client.post("/api/embed", json={**long, "truncate": False})
    assert (refused.status, bool(error_of(refused))) == (400, True)
