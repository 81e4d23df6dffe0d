"""SmolLM2, which was never taught tools or schemas, held to both."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import jsonschema
import openai
import pytest

from tests.engine.grammar.schemas import random_schema

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MODEL = "SmolLM2-135M-Instruct"
ASKED: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Describe a person whom you know, with all details."}],
    "temperature": 1,
}


def described(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


async def test_schemas(smollm2_url: str) -> None:
    """Twenty here; the tiny models have two hundred."""
    async with openai.AsyncOpenAI(base_url=f"{smollm2_url}/v1", api_key="none") as client:

        async def one(seed: int) -> None:
            chance = random.Random(1000 + seed)
            schema = random_schema(chance)
            answer = await client.chat.completions.create(
                **ASKED,
                seed=seed,
                max_tokens=chance.randint(90, 160),
                response_format=described(schema),
            )
            [choice] = answer.choices
            assert choice.finish_reason == "stop", (schema, choice.message.content)
            jsonschema.validate(json.loads(choice.message.content), schema)

        await asyncio.gather(*(one(seed) for seed in range(20)))


async def test_tools(smollm2_url: str) -> None:
    """Six sets, in the form that the generic prompt asks for."""
    async with openai.AsyncOpenAI(base_url=f"{smollm2_url}/v1", api_key="none") as client:

        async def one(seed: int) -> None:
            chance = random.Random(seed)
            schema: dict[str, Any] = {}
            while schema.get("type") != "object":
                schema = random_schema(chance)
            tools: Any = [
                {"type": "function", "function": {"name": name, "parameters": schema}}
                for name in ("save_person", "find_person")
            ]
            answer = await client.chat.completions.create(
                **ASKED, seed=seed, max_tokens=150, tools=tools, tool_choice="required"
            )
            [choice] = answer.choices
            assert choice.finish_reason == "tool_calls"
            assert choice.message.content is None
            for call in choice.message.tool_calls:
                jsonschema.validate(json.loads(call.function.arguments), schema)

        await asyncio.gather(*(one(seed) for seed in range(6)))


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
