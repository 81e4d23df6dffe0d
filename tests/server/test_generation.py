"""The endpoints with real models behind them: the words are known, and the shapes are OpenAI's."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES
from tests.server.asking import CHAT, TEXT, body, chunks_of, text_of
from tests.server.running import Client, Start

CAPITAL = DIALOGUES["capital"]


@pytest.fixture
async def client(start: Start, scripted_model: Path) -> Client:
    return await start(Settings(), Root(scripted_model, "tests", "folders"))


@pytest.mark.clients(63, 64)
async def test_point_63_a_whole_answer(client: Client) -> None:
    began = int(time.time())
    answer = await client.post(CHAT, json=body())
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    got = answer.json
    assert got["id"].startswith("chatcmpl-")
    assert began <= got["created"] <= time.time()
    assert (got["object"], got["model"]) == ("chat.completion", "scripted")
    [choice] = got["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": CAPITAL.reply,
        "refusal": None,
        "annotations": [],
    }
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    usage = got["usage"]
    assert usage["prompt_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.clients(3, 6, 7, 8, 10, 22)
async def test_point_22_a_stream_says_the_same(client: Client) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = chunks_of(await client.post(CHAT, json=body(**options)))
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    assert chunks[0]["model"] == "scripted"
    assert isinstance(chunks[0]["created"], int)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert not any("usage" in chunk for chunk in chunks[:-1])
    reasons = [c["choices"][0]["finish_reason"] for c in chunks[:-1]]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    assert text_of(chunks) == CAPITAL.reply


@pytest.mark.slow
@pytest.mark.parametrize("name", ["emoji", "japanese", "code", "json", "count", "less than"])
async def test_streams_and_whole_answers_are_equal(client: Client, name: str) -> None:
    whole = await client.post(CHAT, json=body(name))
    streamed = await client.post(CHAT, json=body(name, stream=True))
    assert whole.json["choices"][0]["message"]["content"] == DIALOGUES[name].reply
    assert text_of(chunks_of(streamed)) == DIALOGUES[name].reply


@pytest.mark.clients(38)
async def test_point_38_curl_without_a_content_type(client: Client) -> None:
    payload = json.dumps(body()).encode()
    received = await client.raw(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.7.1\r\n"
        b"Accept: */*\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        + f"Content-Length: {len(payload)}\r\n\r\n".encode()
        + payload
    )
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert CAPITAL.reply.encode() in received


@pytest.mark.clients(21)
@pytest.mark.parametrize("stream", [False, True])
async def test_point_21_a_stop_string_ends_the_answer_before_it(
    client: Client, stream: bool
) -> None:
    answer = await client.post(CHAT, json=body("count", stop=[", 7", "x"], stream=stream))
    if stream:
        chunks = chunks_of(answer)
        text, reason = text_of(chunks), chunks[-1]["choices"][0]["finish_reason"]
    else:
        [choice] = answer.json["choices"]
        text, reason = choice["message"]["content"], choice["finish_reason"]
    assert (text, reason) == (COUNT.partition(", 7")[0], "stop")


@pytest.mark.clients(26, 29)
@pytest.mark.parametrize("stream", [False, True])
async def test_point_29_n_answers(client: Client, stream: bool) -> None:
    answer = await client.post(CHAT, json=body(n=3, stream=stream))
    if stream:
        texts = [text_of(chunks_of(answer), choice=choice) for choice in range(3)]
    else:
        assert [choice["index"] for choice in answer.json["choices"]] == [0, 1, 2]
        texts = [choice["message"]["content"] for choice in answer.json["choices"]]
    assert texts == [CAPITAL.reply] * 3


@pytest.mark.clients(26)
async def test_point_26_text_completions(client: Client) -> None:
    names = ["capital", "digits"]
    ask = {"model": "scripted", "temperature": 0, "max_tokens": 100}
    prompts = [COMPLETIONS[name].prompt for name in names]
    answer = await client.post(TEXT, json={**ask, "prompt": prompts})
    assert answer.status == 200
    assert answer.json["object"] == "text_completion"
    assert [choice["text"] for choice in answer.json["choices"]] == [
        COMPLETIONS[name].reply for name in names
    ]
    streamed = await client.post(TEXT, json={**ask, "prompt": prompts[0], "stream": True})
    assert "".join(c["choices"][0]["text"] for c in chunks_of(streamed)) == " Paris."
    echoed = await client.post(TEXT, json={**ask, "prompt": prompts[0], "echo": True})
    assert echoed.json["choices"][0]["text"] == "The capital of France is Paris."


@pytest.mark.clients(49)
@pytest.mark.parametrize(
    "name", ["scripted", "Scripted", "SCRIPTED:latest", "scripted:latest", "", "default", None]
)
async def test_point_49_names_of_the_one_model(client: Client, name: str | None) -> None:
    answer = await client.post(CHAT, json=body(model=name, max_tokens=3))
    assert answer.status == 200
    assert answer.json["model"] == "scripted"


@pytest.mark.clients(48, 49)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.usefixtures("patient_door")
async def test_point_49_an_unknown_model_is_404_and_names_the_nearest(
    client: Client, stream: bool
) -> None:
    answer = await client.post(CHAT, json=body(model="scriptde", stream=stream))
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert "scripted" in answer.error["message"].replace("scriptde", "")


@pytest.mark.clients(41)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.usefixtures("patient_door")
async def test_point_41_a_prompt_that_is_too_long_is_400_with_both_numbers(
    client: Client, stream: bool
) -> None:
    await client.post(CHAT, json=body(max_tokens=1))  # what takes time now is over at the door
    limit = client.engine.status().loaded[0].context_length
    words = "word " * (limit + 10)
    messages = [{"role": "user", "content": words}]
    answer = await client.post(CHAT, json=body(messages=messages, stream=stream))
    assert answer.status == 400
    assert answer.error["code"] == "context_length_exceeded"
    assert str(limit) in answer.error["message"].replace(",", "")


@pytest.mark.clients(42)
async def test_point_42_a_model_of_text_refuses_an_image(client: Client) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [part]}]
    answer = await client.post(CHAT, json=body(messages=messages))
    assert answer.status == 400
    assert answer.error["param"] == "messages[0].content[0].image_url.url"


@pytest.mark.clients(27)
async def test_point_27_null_for_every_optional_field(client: Client) -> None:
    names = (
        "temperature top_p top_k min_p xtc_probability xtc_threshold n stop max_tokens "
        "max_completion_tokens logprobs seed top_logprobs logit_bias stream stream_options tools "
        "tool_choice response_format user presence_penalty frequency_penalty metadata store "
        "parallel_tool_calls"
    )
    answer = await client.post(CHAT, json=body(**dict.fromkeys(names.split())))
    assert answer.status == 200


@pytest.mark.clients(24)
async def test_point_24_two_requests_of_one_client_go_on_together(client: Client) -> None:
    asked = [body("count", stream=True), body("story", stream=True), body("list")]
    count, story, colours = await asyncio.gather(*(client.post(CHAT, json=b) for b in asked))
    assert text_of(chunks_of(count)) == COUNT
    assert text_of(chunks_of(story)) == DIALOGUES["story"].reply
    assert colours.json["choices"][0]["message"]["content"] == DIALOGUES["list"].reply


@pytest.mark.clients(60)
async def test_point_60_a_stream_names_the_origin(client: Client) -> None:
    headers = {"Origin": "http://localhost:3000"}
    answer = await client.post(CHAT, json=body(stream=True), headers=headers)
    assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    assert chunks_of(answer)


@pytest.mark.clients(29)
async def test_point_29_log_probabilities(client: Client) -> None:
    answer = await client.post(CHAT, json=body(logprobs=True, top_logprobs=2))
    tokens = answer.json["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(token["bytes"]) for token in tokens).decode().startswith(CAPITAL.reply)
    assert all(len(token["top_logprobs"]) == 2 for token in tokens)
    streamed = chunks_of(await client.post(CHAT, json=body(logprobs=True, stream=True)))
    assert sum(bool(c["choices"][0]["logprobs"]) for c in streamed) > 3
