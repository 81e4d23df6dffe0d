"""The official SDK against a real server and a real model: right answers, streamed or whole."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import openai
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MODEL = "SmolLM2-135M-Instruct"
QUESTION: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
    "max_tokens": 24,
}
ANSWER = "The capital of France is Paris."


@pytest.fixture
def client(smollm2_url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{smollm2_url}/v1", api_key="none", max_retries=0)


def test_it_names_paris(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**QUESTION)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 37


def test_the_streamed_text_is_the_whole_one(client: openai.OpenAI) -> None:
    with client.chat.completions.create(**QUESTION, stream=True) as stream:
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == ANSWER
    assert len([piece for piece in pieces if piece]) > 3


async def test_the_asynchronous_client_gets_the_same(smollm2_url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{smollm2_url}/v1", api_key="none") as client:
        whole, stream = await asyncio.gather(
            client.chat.completions.create(**QUESTION),
            client.chat.completions.create(**QUESTION, stream=True),
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert whole.choices[0].message.content == "".join(pieces) == ANSWER


def test_legacy_completions_continue_the_text(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="The capital of France is", max_tokens=3, temperature=0
    )
    assert answer.choices[0].text.startswith(" Paris")


def test_the_models_list_names_it(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_curl_without_a_content_type(smollm2_url: str) -> None:
    """The first thing people try."""
    body = '{"model": "%s", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}'
    url = f"{smollm2_url}/v1/chat/completions"
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", url, "-d", body % MODEL],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert '"finish_reason":"length"' in done.stdout
