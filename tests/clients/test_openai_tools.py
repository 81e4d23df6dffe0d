"""Tool loops and thoughts through the official OpenAI SDK, exact to the word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest

from tests.clients.conftest import Served
from tests.clients.test_openai_sdk import make_client
from tests.models.scripted import DIALOGUES, PARIS_QUESTION, TOOLS, TWO_CITIES_QUESTION

WEATHER = {"Paris": "21 degrees, clear", "Tokyo": "15 degrees, rain"}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with make_client(served) as client:
        yield client


@dataclass
class Said:
    """An answer, whole or joined from its chunks."""

    content: str = ""
    thought: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    reasoning_tokens: int = 0

    @property
    def called(self) -> list[tuple[str, dict[str, Any]]]:
        return [(call["name"], json.loads(call["arguments"])) for call in self.calls]

    @property
    def message(self) -> dict[str, Any]:
        """What a client sends back of it."""
        calls = [
            {"id": call["id"], "type": "function"}
            | {"function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in self.calls
        ]
        return {"role": "assistant", "content": self.content or None, "tool_calls": calls}


def say(client: openai.OpenAI, *, stream: bool, **asked: Any) -> Said:
    ask = {"model": "scripted", "temperature": 0, **asked}
    return _streamed(client, ask) if stream else _whole(client, ask)


def _whole(client: openai.OpenAI, ask: dict[str, Any]) -> Said:
    answer = client.chat.completions.create(**ask)
    [choice] = answer.choices
    message = choice.message
    calls = [{"id": c.id, **c.function.model_dump()} for c in message.tool_calls or ()]
    assert getattr(message, "reasoning", None) == getattr(message, "reasoning_content", None)
    return Said(
        message.content or "",
        getattr(message, "reasoning_content", ""),
        calls,
        choice.finish_reason,
        answer.usage.completion_tokens_details.reasoning_tokens,
    )


def _streamed(client: openai.OpenAI, ask: dict[str, Any]) -> Said:
    said = Said()
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in client.chat.completions.create(**ask, **options):
        if chunk.usage is not None:
            said.reasoning_tokens = chunk.usage.completion_tokens_details.reasoning_tokens
            continue
        [choice] = chunk.choices
        delta = choice.delta
        said.content += delta.content or ""
        said.thought += getattr(delta, "reasoning_content", "")
        assert getattr(delta, "reasoning", "") == getattr(delta, "reasoning_content", "")
        for part in delta.tool_calls or ():
            if part.id is not None:  # the first of a call, which alone names it
                assert part.index == len(said.calls)
                assert (part.type, part.function.arguments) == ("function", "")
                said.calls.append({"id": part.id, "name": part.function.name, "arguments": ""})
            else:
                assert part.function.name is None
                said.calls[part.index]["arguments"] += part.function.arguments
        said.reason = choice.finish_reason or said.reason
    return said


@BOTH
@pytest.mark.parametrize(
    ("question", "cities", "last"),
    [
        (PARIS_QUESTION, ["Paris"], "after a call"),
        (TWO_CITIES_QUESTION, ["Paris", "Tokyo"], "after two calls"),
    ],
    ids=["one call", "two in parallel"],
)
@pytest.mark.clients(1, 2, 4, 5, 11, 12)
def test_a_tool_loop(
    client: openai.OpenAI, question: str, cities: list[str], last: str, stream: bool
) -> None:
    messages: list[Any] = [{"role": "user", "content": question}]
    calling = say(client, stream=stream, messages=messages, tools=TOOLS)
    assert calling.called == [("get_weather", {"city": city}) for city in cities]
    assert (calling.content, calling.reason) == ("", "tool_calls")
    assert len({call["id"] for call in calling.calls}) == len(cities)
    messages.append(calling.message)
    for call, (_, arguments) in zip(calling.calls, calling.called, strict=True):
        result = WEATHER[arguments["city"]]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    final = say(client, stream=stream, messages=messages, tools=TOOLS)
    assert (final.content, final.calls, final.reason) == (DIALOGUES[last].reply, [], "stop")


@BOTH
@pytest.mark.parametrize(
    ("name", "content", "thought", "called", "reason"),
    [
        ("tools unused", "Hello! How can I help you today?", "", [], "stop"),
        (
            "thought and call",
            "",
            "I have to look at a clock.",
            [("get_time", {"city": "Tokyo"})],
            "tool_calls",
        ),
        ("text and call", "Let me look.", "", [("get_weather", {"city": "Oslo"})], "tool_calls"),
        ("broken call", DIALOGUES["broken call"].reply, "", [], "stop"),
    ],
)
def test_other_answers_with_tools(
    client: openai.OpenAI,
    name: str,
    content: str,
    thought: str,
    called: list[Any],
    reason: str,
    stream: bool,
) -> None:
    said = say(client, stream=stream, messages=DIALOGUES[name].messages, tools=TOOLS)
    assert (said.content, said.thought, said.called, said.reason) == (
        content,
        thought,
        called,
        reason,
    )
    assert bool(said.reasoning_tokens) == bool(thought)


@BOTH
def test_a_thought(client: openai.OpenAI, stream: bool) -> None:
    said = say(client, stream=stream, messages=DIALOGUES["thought"].messages)
    assert said.thought == "17 + 20 is 37, and 5 more is 42."
    assert (said.content, said.reason) == ("The answer is 42.", "stop")
    assert said.reasoning_tokens == 21
    quick = say(
        client,
        stream=stream,
        messages=DIALOGUES["thought"].messages,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    assert (quick.content, quick.thought) == ("The answer is 42.", "")
    assert quick.reasoning_tokens == 0


@BOTH
def test_functions_in_the_older_form(served: Served, stream: bool) -> None:
    messages = [{"role": "user", "content": PARIS_QUESTION}]
    asked: dict[str, Any] = {
        "model": "scripted",
        "temperature": 0,
        "functions": [tool["function"] for tool in TOOLS],
    }
    with make_client(served) as client:
        if stream:
            parts = [
                c.choices[0]
                for c in client.chat.completions.create(messages=messages, stream=True, **asked)
            ]
            deltas = [p.delta.function_call for p in parts if p.delta.function_call]
            name = "".join(d.name or "" for d in deltas)
            arguments = "".join(d.arguments or "" for d in deltas)
            reason = parts[-1].finish_reason
        else:
            [choice] = client.chat.completions.create(messages=messages, **asked).choices
            call = choice.message.function_call
            assert call is not None
            assert choice.message.tool_calls is None
            name, arguments, reason = call.name, call.arguments, choice.finish_reason
        assert (name, json.loads(arguments)) == ("get_weather", {"city": "Paris"})
        assert reason == "function_call"
        messages += [
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": name, "arguments": arguments},
            },
            {"role": "function", "name": name, "content": WEATHER["Paris"]},
        ]
        [final] = client.chat.completions.create(messages=messages, **asked).choices
    assert final.message.content == DIALOGUES["after a call"].reply


def test_the_parse_helper_reads_calls_and_schemas(client: openai.OpenAI) -> None:
    pydantic = pytest.importorskip("pydantic")

    class GetWeather(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        city: str

    tool = openai.pydantic_function_tool(GetWeather, name="get_weather")
    assert tool["function"]["strict"] is True
    asked: dict[str, Any] = {"model": "scripted", "temperature": 0, "max_tokens": 200}
    messages: Any = [{"role": "user", "content": PARIS_QUESTION}]
    [choice] = client.chat.completions.parse(
        messages=messages, tools=[tool], tool_choice="required", **asked
    ).choices
    for call in choice.message.tool_calls or ():
        assert isinstance(call.function.parsed_arguments, GetWeather)
    assert choice.message.tool_calls
    [choice] = client.chat.completions.parse(
        messages=messages, response_format=GetWeather, **asked
    ).choices
    assert isinstance(choice.message.parsed, GetWeather)


def test_the_stream_helper_gathers_calls(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": TWO_CITIES_QUESTION}]
    with client.chat.completions.stream(
        model="scripted", temperature=0, messages=messages, tools=TOOLS
    ) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        [choice] = stream.get_final_completion().choices
    assert [(event.name, event.arguments) for event in done] == [
        ("get_weather", '{"city": "Paris"}'),
        ("get_weather", '{"city": "Tokyo"}'),
    ]
    assert len(choice.message.tool_calls or ()) == 2
