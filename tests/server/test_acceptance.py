"""What other local servers were seen to get wrong: here each holds, over HTTP with real models."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import COMPLETIONS, DIALOGUES
from tests.server.asking import (
    CHAT,
    NO_END,
    TEXT,
    body,
    chunks_of,
    is_idle,
    long_text,
    said,
    text_of,
    until,
)
from tests.server.running import Answer, Client, Start

pytestmark = pytest.mark.usefixtures("patient_door")

CONTEXT_LENGTH = 4096  # of the scripted model
CAPITAL = DIALOGUES["capital"].reply


@pytest.fixture(scope="session")
def llama(tiny_model: Callable[[str], Path]) -> Path:
    return tiny_model("llama")


@pytest.fixture
async def client(start: Start, scripted_model: Path, long_model: Path, llama: Path) -> Client:
    folders = (scripted_model, long_model, llama)
    return await start(Settings(), *(Root(folder, "tests", "folders") for folder in folders))


async def assert_well(client: Client) -> None:
    """A good request is answered, and the server says that it is well."""
    assert await said(client, CHAT, body(), stream=False) == (CAPITAL, "stop", 10)
    assert (await client.get("/health")).json["status"] == "ok"


async def refused(client: Client, path: str, ask: object, *, status: int = 400) -> dict[str, Any]:
    """The error that both forms of a request are refused with, after which all is well."""
    answers = [await client.post(path, json=ask)]
    if isinstance(ask, dict):
        answers.append(await client.post(path, json={**ask, "stream": True}))
    for answer in answers:
        assert answer.status == status, answer.body
    errors = [answer.error for answer in answers]
    assert errors[0] == errors[-1]
    await assert_well(client)
    return errors[0]


async def token_ends(client: Client, ask: dict[str, Any]) -> list[int]:
    """Where the tokens of an answer end, in bytes."""
    answer = await client.post(CHAT, json={**ask, "logprobs": True})
    tokens = answer.json["choices"][0]["logprobs"]["content"]
    return list(itertools.accumulate(len(token["bytes"]) for token in tokens))


@pytest.mark.slow
@pytest.mark.clients(21)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("name", "stop", "is_inside"),
    [
        ("story", "ght he coun", True),
        ("capital", "tal of Fr", True),
        ("less than", "nd b < c, s", True),
        ("code", "ef add(a, b):\n  ", True),
        ("count", "8,", False),  # white space before it stays
        ("list", "Green", False),
        ("list", "\n", False),
        ("japanese", "世界", False),  # characters of several tokens
        ("emoji", "\u200d👩", False),  # inside what is drawn as one character
    ],
)
async def test_row_stop_string_inside_tokens(
    client: Client, name: str, stop: str, is_inside: bool, stream: bool
) -> None:
    before = DIALOGUES[name].reply.partition(stop)[0]
    first, last = len(before.encode()), len((before + stop).encode())
    ends = await token_ends(client, body(name))
    assert is_inside is not bool({first, last} & set(ends))
    ask = body(name, stop=[stop, "never said"])
    # The token that completes it is the last one: nothing is generated after it.
    num_tokens = sum(end < last for end in ends) + 1
    assert await said(client, CHAT, ask, stream=stream) == (before, "stop", num_tokens)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_row_stop_string_ends_generation_at_once(client: Client, stream: bool) -> None:
    text, reason, _ = await said(client, TEXT, long_text(max_tokens=60), stream=False)
    assert reason == "length"
    stop = text[30:33]
    ask = long_text(stop=stop)  # or else to the end of 200,000 tokens
    text_before, reason, num_tokens = await said(client, TEXT, ask, stream=stream)
    assert (text_before, reason) == (text.partition(stop)[0], "stop")
    assert num_tokens <= 60
    await until(lambda: is_idle(client))


async def test_row_stop_string_frees_its_row_beside_one_that_goes_on(client: Client) -> None:
    text = (await said(client, TEXT, long_text(max_tokens=60), stream=False))[0]
    ask = long_text(["hello", "Please write a list"], stop=text[20:35], stream=True)
    url = f"http://127.0.0.1:{client.port}{TEXT}"
    async with client.session.post(url, json=ask) as response:
        async for line in response.content:
            if b'"finish_reason":"stop"' in line:
                assert b'"index":0' in line
                break
        await until(lambda: [model.num_running for model in client.engine.status().loaded] == [1])


@pytest.mark.slow
async def test_row_byte_that_never_completes_a_character(client: Client, llama: Path) -> None:
    tokenizer = Tokenizer.from_file(str(llama / "tokenizer.json"))
    first_of_three = tokenizer.token_to_id("ã")  # stands for the byte E3
    letter = tokenizer.token_to_id("x")
    ask = {
        "model": "tiny-llama",
        "prompt": "hello",
        "max_tokens": 40,
        "seed": 3,
        "temperature": 2,
        "logprobs": 0,
        "logit_bias": {str(first_of_three): 100, str(letter): 100},
    }
    whole = (await client.post(TEXT, json=ask)).json["choices"][0]
    tokens = whole["logprobs"]["tokens"]
    assert set(tokens) == {"\ufffd", "x"}
    # Half a character, then a letter: one mark, and the text goes on.
    assert "\ufffdx" in whole["text"]
    assert "\ufffd\ufffdx" in whole["text"]
    # But for half a character that the answer was cut in.
    joined = "".join(tokens)
    assert whole["text"] in (joined, joined.removesuffix("\ufffd"))
    streamed = chunks_of(await client.post(TEXT, json={**ask, "stream": True}))
    assert text_of(streamed) == whole["text"]


@pytest.mark.slow
@pytest.mark.clients(41)
async def test_row_prompt_longer_than_the_context(client: Client) -> None:
    ids = [20] * CONTEXT_LENGTH
    error = await refused(client, TEXT, {"model": "scripted", "prompt": ids})
    assert error["code"] == "context_length_exceeded"
    assert error["message"].count(str(CONTEXT_LENGTH)) == 2  # so long is it, and so long it may be
    just_fits = {"model": "scripted", "prompt": ids[1:], "temperature": 0}
    _, _, num_tokens = await said(client, TEXT, just_fits, stream=False)
    assert num_tokens == 1
    message = {"role": "user", "content": "word " * CONTEXT_LENGTH}
    error = await refused(client, CHAT, body(messages=[message]))
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"stop": 5}, "stop"),
        ({"stop": [None]}, "stop[0]"),
        ({"logit_bias": {"520": 1}}, "logit_bias"),
        ({"logit_bias": {"999999999": -100}}, "logit_bias"),
        ({"seed": 2**70}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"prompt": [10, 520]}, "prompt"),
    ],
    ids=str,
)
async def test_row_values_that_cannot_be(
    client: Client, fields: dict[str, Any], param: str
) -> None:
    error = await refused(client, TEXT, {"model": "scripted", "prompt": "hi", **fields})
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


@pytest.mark.parametrize(
    ("fields", "num_choices"),
    [
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": [10, 20, 30]}, 1),
        ({"prompt": "hi", "seed": 2**64 - 1}, 1),
        ({"prompt": "hi", "seed": -(2**63)}, 1),
        ({"prompt": "hi", "logit_bias": {"519": -100}}, 1),
    ],
    ids=str,
)
async def test_row_values_that_look_odd_and_are_right(
    client: Client, fields: dict[str, Any], num_choices: int
) -> None:
    answer = await client.post(TEXT, json={"model": "scripted", "max_tokens": 2, **fields})
    assert answer.status == 200
    assert len(answer.json["choices"]) == num_choices
    await assert_well(client)


@pytest.mark.parametrize("max_tokens", [-1, None])
async def test_row_max_tokens_to_the_end_of_the_context(
    client: Client, max_tokens: int | None
) -> None:
    ask = {"model": "tiny-llama", "prompt": [20] * 400, "temperature": 0, "logit_bias": NO_END}
    answer = await client.post(TEXT, json={**ask, "max_tokens": max_tokens})
    assert answer.json["choices"][0]["finish_reason"] == "length"
    assert answer.json["usage"]["total_tokens"] == 512


async def test_row_invalid_utf8_body(client: Client) -> None:
    data = json.dumps(body()).encode().replace(b"France", b"Fran\xe7")
    answer = await client.post(CHAT, data=data)
    assert answer.status == 400
    assert "UTF-8" in answer.error["message"]
    await assert_well(client)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["{", "", "null", '{"city": ', "\u2028", "[1]"])
async def test_row_broken_arguments_in_the_history(client: Client, arguments: str) -> None:
    function = {"name": "get_weather", "arguments": arguments}
    messages = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "21 degrees, clear"},
    ]
    answer = await client.post(CHAT, json=body(messages=messages, max_tokens=20))
    assert answer.status == 200
    await assert_well(client)


@pytest.mark.clients(36)
@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ({"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}, "nonsense"),
        ({"type": "json_schema", "json_schema": {"schema": {"not": {}}}}, "'not'"),
        ({"type": "json_schema"}, "schema"),
        ({"type": "yaml"}, "yaml"),
    ],
    ids=["no schema", "a keyword that can't be enforced", "nothing", "another type"],
)
async def test_row_response_format(client: Client, wanted: dict[str, Any], word: str) -> None:
    error = await refused(client, CHAT, body(response_format=wanted))
    assert error["param"].startswith("response_format")
    assert word in error["message"]


@pytest.mark.clients(49)
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_row_unknown_model(client: Client, path: str) -> None:
    error = await refused(client, path, body(model="tiny-lama", prompt="hi"), status=404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "tiny-llama" in error["message"]


@pytest.mark.clients(42)
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("data:image/png;base64,AA==", "text only"),
        ("http://localhost:1/cat.png", "fetches nothing"),
    ],
)
async def test_row_image_sent_to_a_text_model(client: Client, url: str, words: str) -> None:
    parts = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": url}}]
    error = await refused(client, CHAT, body(messages=[{"role": "user", "content": parts}]))
    assert error["param"] == "messages[0].content[1].image_url.url"
    assert words in error["message"]


async def test_row_empty_messages(client: Client) -> None:
    error = await refused(client, CHAT, body(messages=[]))
    assert error["param"] == "messages"


@pytest.mark.clients(29)
async def test_row_n_2(client: Client) -> None:
    ask = body("story", n=2, temperature=2, seed=1, max_tokens=20)
    texts = [choice["message"]["content"] for choice in (await sent(client, ask))["choices"]]
    assert len(texts) == len(set(texts)) == 2
    single = await sent(client, {**ask, "n": 1})
    assert single["choices"][0]["message"]["content"] == texts[0]


async def sent(client: Client, ask: dict[str, Any]) -> dict[str, Any]:
    answer: Answer = await client.post(CHAT, json=ask)
    assert answer.status == 200, answer.body
    got: dict[str, Any] = answer.json
    return got


@pytest.mark.clients(29)
@pytest.mark.parametrize("num_top", [0, 1, 20])
async def test_row_logprobs_of_chat(client: Client, num_top: int) -> None:
    ask = body("list", logprobs=True, top_logprobs=num_top)
    whole = (await sent(client, ask))["choices"][0]["logprobs"]
    assert set(whole) == {"content", "refusal"}
    tokens = whole["content"]
    assert [token["token"] for token in tokens[:6]] == ["1", ".", " ", "R", "ed", "\n"]
    assert tokens[5]["bytes"] == [10]
    assert b"".join(bytes(token["bytes"]) for token in tokens).decode() == DIALOGUES["list"].reply
    for token in tokens:
        assert set(token) == {"token", "logprob", "bytes", "top_logprobs"}
        assert len(token["top_logprobs"]) == num_top
        logprobs = [top["logprob"] for top in token["top_logprobs"]]
        assert logprobs == sorted(logprobs, reverse=True)
        # The likeliest was taken, and the model knows its answers by heart.
        taken = {name: token[name] for name in ("token", "logprob", "bytes")}
        assert token["top_logprobs"][:1] == [taken][:num_top]
        assert -0.7 < token["logprob"] <= 0
    chunks = chunks_of(await client.post(CHAT, json={**ask, "stream": True}))
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    streamed = [token for part in parts if part is not None for token in part["content"]]
    assert [token["token"] for token in streamed] == [token["token"] for token in tokens]


@pytest.mark.clients(45)
async def test_row_logprobs_of_text(client: Client) -> None:
    ask = {"model": "scripted", "prompt": "The capital of France is", "temperature": 0}
    got = (await client.post(TEXT, json={**ask, "logprobs": 2})).json["choices"][0]["logprobs"]
    assert (got["tokens"], got["text_offset"]) == ([" Paris", "."], [0, 6])
    assert all(-0.7 < logprob <= 0 for logprob in got["token_logprobs"])
    assert [len(top) for top in got["top_logprobs"]] == [2, 2]
    assert " Paris" in got["top_logprobs"][0]


async def test_row_text_completions_are_raw(client: Client, scripted_model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(scripted_model / "tokenizer.json"))
    for completion in (COMPLETIONS["capital"], COMPLETIONS["digits"]):
        ask = {"model": "scripted", "prompt": completion.prompt, "temperature": 0}
        got = (await client.post(TEXT, json=ask)).json
        assert got["choices"][0]["text"] == completion.reply
        assert got["usage"]["prompt_tokens"] == len(tokenizer.encode(completion.prompt).ids)
