"""The official SDK's asynchronous client gets the same answers, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.clients.conftest import Served
from tests.clients.test_openai_sdk import CAPITAL, NO_END, ask
from tests.engine.asking import slowed
from tests.models.scripted import COMPLETIONS, COUNT, DIALOGUES, STORY


def make_client(served: Served, *, strict: bool = True) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=served.base_url,
        api_key="none",
        max_retries=0,
        _strict_response_validation=strict,
    )


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    async with make_client(served) as client:
        yield client


async def streamed(client: openai.AsyncOpenAI, **asked: Any) -> str:
    pieces = []
    async for chunk in await client.chat.completions.create(**asked, stream=True):
        pieces += [choice.delta.content or "" for choice in chunk.choices]
    return "".join(pieces)


async def whole(client: openai.AsyncOpenAI, **asked: Any) -> str:
    answer = await client.chat.completions.create(**asked)
    return str(answer.choices[0].message.content)


async def test_whole_and_streamed_answers_together(client: openai.AsyncOpenAI) -> None:
    names = ["capital", "emoji", "japanese", "list", "story", "count"]
    answers = await asyncio.gather(
        *(streamed(client, **ask(name)) for name in names),
        *(whole(client, **ask(name)) for name in names),
    )
    assert answers == [DIALOGUES[name].reply for name in names] * 2


async def test_text_completions(served: Served) -> None:
    prompt = COMPLETIONS["story"].prompt
    asked: dict[str, Any] = {"model": "scripted", "prompt": prompt, "temperature": 0}
    # A chunk's null finish_reason, which OpenAI sends too, is against the SDK's own types.
    async with make_client(served, strict=False) as lenient:
        stream = await lenient.completions.create(**asked, stop=["lighthouse"], stream=True)
        text = "".join([chunk.choices[0].text async for chunk in stream])
    assert prompt + text == STORY.partition("lighthouse")[0]


async def test_the_stream_helper(client: openai.AsyncOpenAI) -> None:
    options = {"stream_options": {"include_usage": True}}
    async with client.chat.completions.stream(**ask("count", stop=", 20", **options)) as stream:
        deltas = [event.delta async for event in stream if event.type == "content.delta"]
        final = await stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == COUNT.partition(", 20")[0]
    assert final.choices[0].finish_reason == "stop"
    assert final.usage is not None
    assert final.usage.completion_tokens > 19


async def test_raw_answers_and_models(client: openai.AsyncOpenAI) -> None:
    raw = await client.chat.completions.with_raw_response.create(**ask())
    assert raw.headers["x-request-id"].startswith("req-")
    assert raw.parse().choices[0].message.content == CAPITAL
    assert (await client.models.retrieve("other/twin")).owned_by == "other"
    assert len([model async for model in client.models.list()]) == 3


@pytest.mark.usefixtures("patient_door")
async def test_errors(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="scripted"):
        await client.chat.completions.create(**ask(model="scriptde"), stream=True)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await whole(client, **ask(temperature=-1))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_task_that_is_cancelled_frees_its_row(
    client: openai.AsyncOpenAI, served: Served, stream: bool
) -> None:
    asked = ask(max_tokens=-1, logit_bias=NO_END)
    with slowed():
        task = asyncio.create_task(streamed(client, **asked) if stream else whole(client, **asked))
        async with asyncio.timeout(30):
            while served.engine.status().num_running == 0:
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(served.wait, served.is_idle)


async def test_a_stream_that_is_closed_frees_its_row(
    client: openai.AsyncOpenAI, served: Served
) -> None:
    with slowed():
        stream = await client.chat.completions.create(
            **ask(max_tokens=-1, logit_bias=NO_END), stream=True
        )
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        await asyncio.to_thread(served.wait, served.is_idle)
