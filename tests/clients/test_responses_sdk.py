"""The official OpenAI SDK's own Responses API, with its types checked, gets exact answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest

from tests.clients.conftest import Served
from tests.models.scripted import DIALOGUES, SUM_THOUGHT, TOOLS

CAPITAL = DIALOGUES["capital"].reply
FLAT_TOOLS: Any = [{"type": "function", "strict": False, **tool["function"]} for tool in TOOLS]


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=served.base_url, api_key="none", max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def ask(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    if DIALOGUES[name].tools:
        more = {"tools": FLAT_TOOLS, **more}
    return {"model": "scripted", "input": DIALOGUES[name].messages, "temperature": 0, **more}


@pytest.mark.slow
@pytest.mark.clients(80, 81, 82, 87)
def test_whole_and_streamed(client: openai.OpenAI) -> None:
    whole = client.responses.create(**ask("thought"))
    assert (whole.output_text, whole.status) == ("The answer is 42.", "completed")
    assert whole.usage is not None
    assert whole.usage.output_tokens_details.reasoning_tokens > 0
    with client.responses.stream(**ask("thought")) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    thoughts = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    words = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert ("".join(thoughts), "".join(words)) == (SUM_THOUGHT, whole.output_text)
    assert [event.sequence_number for event in events] == list(range(len(events)))


@pytest.mark.slow
@pytest.mark.clients(83, 86)
def test_a_loop_of_tools(client: openai.OpenAI) -> None:
    with client.responses.stream(**ask("two calls")) as stream:
        first = stream.get_final_response()
    calls = [item for item in first.output if item.type == "function_call"]
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": result}
        for call, result in zip(calls, ("21 degrees, clear", "15 degrees, rain"), strict=True)
    ]
    asked = ask("two calls", input=outputs)
    kept = client.responses.create(**asked, previous_response_id=first.id)
    # The same, with all of it sent again.
    items = [item.model_dump(exclude_none=True) for item in first.output]
    asked = ask("two calls", input=[*DIALOGUES["two calls"].messages, *items, *outputs])
    sent = client.responses.create(**asked, store=False)
    assert kept.output_text == sent.output_text == DIALOGUES["after two calls"].reply


class Animal(pydantic.BaseModel):
    animal: str
    legs: int


@pytest.mark.clients(36)
def test_parse(client: openai.OpenAI) -> None:
    response = client.responses.parse(**ask("json"), text_format=Animal, max_output_tokens=100)
    assert isinstance(response.output_parsed, Animal)


def test_kept_responses(client: openai.OpenAI) -> None:
    response = client.responses.create(**ask(metadata={"a": "b"}))
    assert client.responses.retrieve(response.id) == response
    [item] = list(client.responses.input_items.list(response.id, limit=1))
    assert item.type == "message"
    counted = client.responses.input_tokens.count(model="scripted", input=ask()["input"])
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens
    assert client.responses.cancel(response.id).status == "completed"
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**ask(previous_response_id=response.id))
    assert caught.value.code == "previous_response_not_found"


@pytest.mark.clients(88)
def test_an_answer_that_is_cut_and_log_probabilities(client: openai.OpenAI) -> None:
    wanted: Any = ["message.output_text.logprobs"]
    response = client.responses.create(**ask(max_output_tokens=3, include=wanted, top_logprobs=2))
    assert (response.status, response.output_text) == ("incomplete", "The capital")
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    [message] = response.output
    assert message.type == "message"
    [part] = message.content
    assert part.type == "output_text"
    assert "".join(token.token for token in part.logprobs or []) == "The capital"
