"""The same image through the four APIs, what is refused, and what the models are said to do."""

from __future__ import annotations

import asyncio
import base64
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.settings import Settings
from tests.server.running import Answer, Client, started
from tests.vision.asking import QUESTION, file_of, picture

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "tiny-idefics3"
GREEDY: dict[str, Any] = {"model": MODEL, "temperature": 0}
NUM_TOKENS = 12
PAGE = Path(__file__).parents[2] / "docs" / "vision.md"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(seeing_models: Path, scripted_model: Path) -> AsyncIterator[Client]:
    """One server for all of these tests."""
    roots = [Root(folder, "tests", "folders") for folder in (seeing_models, scripted_model)]
    async with started() as start:
        yield await start(Settings(cache_disk_bytes=0), *roots)


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url_of(data: bytes) -> str:
    return f"data:image/png;base64,{base64_of(data)}"


def chat_body(url: str, **more: Any) -> dict[str, Any]:
    parts = [
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "text", "text": QUESTION},
    ]
    messages = [{"role": "user", "content": parts}]
    return {**GREEDY, "messages": messages, "max_tokens": NUM_TOKENS, **more}


def message_body(data: bytes) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": base64_of(data)}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    return {**GREEDY, "messages": [{"role": "user", "content": blocks}], "max_tokens": NUM_TOKENS}


def response_body(data: bytes) -> dict[str, Any]:
    parts = [
        {"type": "input_image", "image_url": url_of(data)},
        {"type": "input_text", "text": QUESTION},
    ]
    given = [{"role": "user", "content": parts}]
    return {**GREEDY, "input": given, "max_output_tokens": NUM_TOKENS, "store": True}


async def test_the_four_apis_give_the_same_text(client: Client) -> None:
    data = file_of(picture(0))
    options = {"temperature": 0, "num_predict": NUM_TOKENS}
    ollama = {"model": MODEL, "stream": False, "options": options}
    turn = {"role": "user", "content": QUESTION, "images": [base64_of(data)]}
    prompt = {"prompt": QUESTION, "images": [base64_of(data)]}
    asked = {
        "/v1/chat/completions": chat_body(url_of(data)),
        "/v1/messages": message_body(data),
        "/v1/responses": response_body(data),
        "/api/chat": {**ollama, "messages": [turn]},
        "/api/generate": {**ollama, **prompt},
    }
    answers = {path: (await client.post(path, json=body)).json for path, body in asked.items()}
    chat = answers["/v1/chat/completions"]
    text = chat["choices"][0]["message"]["content"]
    assert len(text) > NUM_TOKENS
    assert answers["/v1/messages"]["content"][0]["text"] == text
    response = answers["/v1/responses"]
    assert response["output"][0]["content"][0]["text"] == text
    assert answers["/api/chat"]["message"]["content"] == text
    assert answers["/api/generate"]["response"] == text
    num_tokens = chat["usage"]["prompt_tokens"]
    assert response["usage"]["input_tokens"] == num_tokens > 40
    assert response["usage"]["input_tokens_details"]["cached_tokens"] == num_tokens - 1
    assert answers["/api/chat"]["prompt_eval_count"] == num_tokens
    counted = await client.post("/v1/messages/count_tokens", json=message_body(data))
    assert counted.json == {"input_tokens": num_tokens}
    tokens = await client.post("/v1/responses/input_tokens", json=response_body(data))
    assert tokens.json["input_tokens"] == num_tokens
    # A kept response goes on with its image.
    more = {**GREEDY, "input": "And?", "previous_response_id": response["id"]}
    again = await client.post("/v1/responses", json={**more, "max_output_tokens": 1})
    assert again.json["usage"]["input_tokens"] > num_tokens + NUM_TOKENS


SENT: dict[str, tuple[str, str]] = {
    "an address": ("https://example.org/cat.png", "fetches nothing"),
    "no URL": ("cat.png", "must be a data: URL"),
    "a text": ("data:text/plain;base64,aGk=", "is no image"),
    "bad base64": ("data:image/png;base64,é", "not valid base64"),
    "nothing": ("data:image/png;base64,", "is empty"),
    "no image": ("data:image/png;base64,aGk=", "no image of a kind that is read here"),
    "cut off": (url_of(file_of(picture(0))[:400]), "is a broken image"),
    "too many pixels": (url_of(file_of(picture(0).resize((1, 1)).resize((8000, 8000)))), "pixels"),
}


def refused(answer: Answer) -> tuple[str, str]:
    assert answer.status == 400, answer.body
    return answer.json["error"]["param"], answer.json["error"]["message"]


@pytest.mark.parametrize(("url", "words"), SENT.values(), ids=SENT)
async def test_what_is_no_image_is_a_400(client: Client, url: str, words: str) -> None:
    answer = await client.post("/v1/chat/completions", json=chat_body(url))
    param, message = refused(answer)
    assert param == "messages[0].content[0].image_url.url"
    assert words in message


async def test_the_models_own_signs_for_images_are_refused_beside_one(client: Client) -> None:
    body = chat_body(url_of(file_of(picture(0))))
    body["messages"][0]["content"][1]["text"] = "What does <image> mean?"
    _, message = refused(await client.post("/v1/chat/completions", json=body))
    assert "<image> can't be written in a text" in message


async def test_a_model_of_text_names_those_that_see(client: Client) -> None:
    body = chat_body(url_of(file_of(picture(0))), model="scripted")
    param, message = refused(await client.post("/v1/chat/completions", json=body))
    assert param == "messages[0].content[0].image_url.url"
    assert (
        "scripted reads text only. Images are for tiny-gemma3, tiny-gemma4, tiny-idefics3, tiny-"
        in message
    )


async def test_lists_say_who_sees(client: Client) -> None:
    listed = (await client.get("/v1/models")).json["data"]
    abilities = {model["id"]: model["abilities"] for model in listed}
    assert abilities[MODEL] == ["chat", "completions", "images"]
    assert "images" not in abilities["scripted"]
    shown = (await client.post("/api/show", json={"model": MODEL})).json
    assert "vision" in shown["capabilities"]
    older = (await client.get(f"/api/v0/models/{MODEL}")).json
    assert (older["type"], older["capabilities"]) == ("vlm", ["vision"])
    newer = (await client.get("/api/v1/models")).json["models"]
    sees = {model["key"]: model["capabilities"]["vision"] for model in newer}
    assert (sees[MODEL], sees["scripted"]) == (True, False)


@pytest.mark.slow
async def test_the_program_of_the_page_runs(client: Client, tmp_path: Path) -> None:
    """As it is, but for the server's address, the model's name, and a length."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for shown, ours in (
        ("http://127.0.0.1:11434/v1", f"http://127.0.0.1:{client.port}/v1"),
        ('"SmolVLM-500M-Instruct"', f'"{MODEL}", max_tokens={NUM_TOKENS}, temperature=0'),
    ):
        assert shown in program
        program = program.replace(shown, ours)
    data = file_of(picture(0))
    (tmp_path / "cat.png").write_bytes(data)
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(running.communicate(), 60)
    assert running.returncode == 0
    parts = [
        {"type": "image_url", "image_url": {"url": url_of(data)}},
        {"type": "text", "text": "What is in the picture?"},
    ]
    body = {**GREEDY, "messages": [{"role": "user", "content": parts}], "max_tokens": NUM_TOKENS}
    answer = await client.post("/v1/chat/completions", json=body)
    assert printed.decode() == answer.json["choices"][0]["message"]["content"] + "\n"
