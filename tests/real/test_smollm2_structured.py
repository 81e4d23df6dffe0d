"""SmolLM2, which was never taught tools or schemas, held to both."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import jsonschema
import openai
import pytest

from maxi_mlx.core.request import Tool
from maxi_mlx.engine.grammar.least_size import LeastSize
from tests.engine.grammar.schemas import random_schema
from tests.engine.speakers import accepted, random_tools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODEL = "SmolLM2-135M-Instruct"
ASKED: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Describe a person whom you know, with all details."}],
    "temperature": 1,
}
# Enough for one batch, in which a token costs the least.
NUM_AT_ONCE = 32
# Beside the least that must be written. Few, so that many answers are ended by their budget.
NUM_FREE_TOKENS = 12
# Of a set's tools: to read them is what takes the time.
MAX_TOOLS_CHARS = 300

Ask = Callable[[openai.AsyncOpenAI, int], Coroutine[None, None, None]]


def described(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


async def ask_all(url: str, one: Ask, seeds: list[int]) -> None:
    places = asyncio.Semaphore(NUM_AT_ONCE)
    async with (
        openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="none", timeout=600, max_retries=0
        ) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def wait_and_ask(seed: int) -> None:
            async with places:
                await one(client, seed)

        for seed in seeds:
            tasks.create_task(wait_and_ask(seed))


async def test_two_hundred_schemas(smollm2_url: str) -> None:
    async def one(client: openai.AsyncOpenAI, seed: int) -> None:
        schema = random_schema(random.Random(1000 + seed))
        answer = await client.chat.completions.create(
            **ASKED,
            seed=seed,
            max_tokens=LeastSize(schema).of(schema) + NUM_FREE_TOKENS,
            response_format=described(schema),
        )
        [choice] = answer.choices
        assert choice.finish_reason == "stop", (schema, choice.message.content)
        jsonschema.validate(json.loads(choice.message.content), schema)

    await ask_all(smollm2_url, one, list(range(200)))


def wire(tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def short_sets() -> Iterator[int]:
    """Seeds of tools that are soon read."""
    for seed in itertools.count():
        if len(json.dumps(wire(random_tools(seed)), ensure_ascii=False)) <= MAX_TOOLS_CHARS:
            yield seed


async def test_fifty_sets_of_tools(smollm2_url: str) -> None:
    """In the form that the generic prompt asks for."""

    async def one(client: openai.AsyncOpenAI, seed: int) -> None:
        tools = random_tools(seed)
        schemas = {tool.name: accepted(tool) for tool in tools}
        answer = await client.chat.completions.create(
            **ASKED, seed=seed, max_tokens=64, tools=wire(tools), tool_choice="required"
        )
        [choice] = answer.choices
        assert choice.finish_reason == "tool_calls", (tools, choice.message)
        assert choice.message.content is None
        for call in choice.message.tool_calls:
            schema = schemas[call.function.name]
            jsonschema.validate(json.loads(call.function.arguments), schema)

    await ask_all(smollm2_url, one, list(itertools.islice(short_sets(), 50)))


def test_a_free_answer_beside_others_is_what_it_is_alone(smollm2_url: str) -> None:
    client = openai.OpenAI(base_url=f"{smollm2_url}/v1", api_key="none", max_retries=0)
    question: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "temperature": 0,
        "max_tokens": 24,
    }
    alone = client.chat.completions.create(**question).choices[0].message.content

    async def together() -> list[Any]:
        url = f"{smollm2_url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as many:
            schema = {
                "type": "array",
                "items": {"enum": ["a", "b"]},
                "minItems": 20,
                "maxItems": 25,
            }
            held = [
                many.chat.completions.create(**ASKED, seed=i, response_format=described(schema))
                for i in range(3)
            ]
            return await asyncio.gather(many.chat.completions.create(**question), *held)

    free, *_ = asyncio.run(together())
    assert free.choices[0].message.content == alone
