"""The official Anthropic SDK, which checks every answer against its types, gets exact answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pydantic
import pytest

from maxi_mlx.core.settings import Settings
from tests.clients.conftest import Served, serving
from tests.models.scripted import (
    COUNT,
    DIALOGUES,
    PARIS_QUESTION,
    SUM_QUESTION,
    SUM_THOUGHT,
    TWO_CITIES_QUESTION,
)
from tests.server.asking_messages import CITY_TOOLS, asked

WEATHER = {"Paris": "21 degrees, clear", "Tokyo": "15 degrees, rain"}


def ask(name: str = "capital", /, **more: Any) -> dict[str, Any]:
    """The SDK's methods have no parameter for the temperature any more."""
    fields = asked(name, **more)
    fields["extra_body"] = {"temperature": fields.pop("temperature")}
    return fields


def options(served: Served, **more: Any) -> dict[str, Any]:
    return {
        "base_url": served.base_url.removesuffix("/v1"),
        "api_key": "none",
        "max_retries": 0,
        "_strict_response_validation": True,
        **more,
    }


@pytest.fixture
def client(served: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(**options(served)) as client:
        yield client


@pytest.fixture
async def async_client(served: Served) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(**options(served)) as client:
        yield client


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def shown(message: Any) -> list[tuple[str, str]]:
    """The helpers have classes of their own for blocks."""
    return [(block.type, getattr(block, block.type)) for block in message.content]


@pytest.mark.clients(65, 66, 68)
@pytest.mark.parametrize("name", ["capital", "emoji", "japanese", "second turn", "system"])
def test_whole_and_streamed_messages_are_exact(client: anthropic.Anthropic, name: str) -> None:
    whole = client.messages.create(**ask(name))
    assert text_of(whole) == DIALOGUES[name].reply
    assert (whole.stop_reason, whole.model, whole.role) == ("end_turn", "scripted", "assistant")
    assert whole._request_id
    with client.messages.stream(**ask(name)) as stream:
        assert "".join(stream.text_stream) == DIALOGUES[name].reply
        final = stream.get_final_message()
    assert shown(final) == shown(whole)
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.usage.cache_read_input_tokens + final.usage.input_tokens == (
        whole.usage.cache_read_input_tokens + whole.usage.input_tokens
    )
    events = [event.type for event in client.messages.create(**ask(name), stream=True)]
    assert events[:2] == ["message_start", "content_block_start"]
    assert events[-3:] == ["content_block_stop", "message_delta", "message_stop"]


@pytest.mark.clients(69, 75)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("question", "cities", "last"),
    [
        (PARIS_QUESTION, ["Paris"], "after a call"),
        (TWO_CITIES_QUESTION, ["Paris", "Tokyo"], "after two calls"),
    ],
    ids=["one call", "two in parallel"],
)
def test_a_tool_loop(
    client: anthropic.Anthropic, question: str, cities: list[str], last: str, stream: bool
) -> None:
    def say(messages: list[Any]) -> Any:
        fields = {**ask("call"), "messages": messages}
        if not stream:
            return client.messages.create(**fields)
        with client.messages.stream(**fields) as events:
            return events.get_final_message()

    messages: list[Any] = [{"role": "user", "content": question}]
    calling = say(messages)
    assert calling.stop_reason == "tool_use"
    calls = [block for block in calling.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [
        ("get_weather", {"city": city}) for city in cities
    ]
    assert len({call.id for call in calls}) == len(cities)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": WEATHER[call.input["city"]]}
        for call in calls
    ]
    messages += [
        {"role": "assistant", "content": calling.content},
        {"role": "user", "content": results},
    ]
    answer = say(messages)
    assert (text_of(answer), answer.stop_reason) == (DIALOGUES[last].reply, "end_turn")


@pytest.mark.clients(69, 75)
def test_the_sdks_own_tool_runner(client: anthropic.Anthropic) -> None:
    calls = []

    @anthropic.beta_tool(
        name="get_weather",
        description=CITY_TOOLS[0]["description"],
        input_schema=CITY_TOOLS[0]["input_schema"],
    )
    def get_weather(city: str) -> str:
        calls.append(city)
        return WEATHER[city]

    runner = client.beta.messages.tool_runner(
        model="scripted",
        max_tokens=100,
        tools=[get_weather],
        messages=[{"role": "user", "content": PARIS_QUESTION}],
        extra_body={"temperature": 0, "tools": CITY_TOOLS},
    )
    assert text_of(runner.until_done()) == DIALOGUES["after a call"].reply
    assert calls == ["Paris"]


@pytest.mark.clients(74)
def test_thoughts(client: anthropic.Anthropic) -> None:
    thinking: Any = {"type": "adaptive"}
    whole = client.messages.create(**ask("thought", thinking=thinking))
    thought, said = whole.content
    assert (thought.type, said.type) == ("thinking", "text")
    assert (thought.thinking, said.text) == (SUM_THOUGHT, "The answer is 42.")
    with client.messages.stream(**ask("thought", thinking=thinking)) as stream:
        pieces = [event.thinking for event in stream if event.type == "thinking"]
        assert shown(stream.get_final_message()) == shown(whole)
    assert "".join(pieces) == SUM_THOUGHT
    assert whole.usage.output_tokens_details.thinking_tokens > 10
    again = [
        {"role": "user", "content": SUM_QUESTION},
        {"role": "assistant", "content": whole.content},
        {"role": "user", "content": "Hello!"},
    ]
    assert client.messages.create(**{**ask(), "messages": again}).stop_reason == "end_turn"


class Cat(pydantic.BaseModel):
    """What a model is held to; the SDK sends its schema."""

    legs: int
    tame: bool


def test_parsed_output(client: anthropic.Anthropic) -> None:
    fields = ask("json", thinking={"type": "disabled"})
    parsed = client.messages.parse(**fields, output_format=Cat)
    assert isinstance(parsed.parsed_output, Cat)


@pytest.mark.clients(76)
def test_counting(client: anthropic.Anthropic) -> None:
    for name in ("capital", "after two calls", "system"):
        fields = ask(name)
        used = client.messages.create(**fields).usage
        for left_out in ("max_tokens", "extra_body"):
            del fields[left_out]
        counted = client.messages.count_tokens(**fields).input_tokens
        assert counted == used.input_tokens + used.cache_read_input_tokens


@pytest.mark.clients(77)
def test_ends(client: anthropic.Anthropic) -> None:
    stopped = client.messages.create(**ask("count", stop_sequences=[", 7"]))
    assert text_of(stopped) == COUNT.partition(", 7")[0]
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", ", 7")
    assert client.messages.create(**ask("count", max_tokens=3)).stop_reason == "max_tokens"
    with client.messages.stream(**ask("call", max_tokens=17)) as stream:
        [block] = stream.get_final_message().content
    assert (block.type, block.name) == ("tool_use", "get_weather")


@pytest.mark.clients(52, 53)
def test_models(client: anthropic.Anthropic) -> None:
    names = [model.id for model in client.models.list(limit=1)]  # page after page
    assert names == ["acme/twin", "other/twin", "scripted"]
    assert client.models.retrieve("acme/twin").max_input_tokens == 4096


@pytest.mark.clients(47, 54)
def test_errors(client: anthropic.Anthropic, served: Served) -> None:
    with pytest.raises(anthropic.NotFoundError, match="'nobody' was not found") as caught:
        client.messages.create(**ask(model="nobody"))
    assert caught.value.type == "not_found_error"
    assert caught.value.request_id
    with pytest.raises(anthropic.BadRequestError, match=r"'thinking\.type'"):
        client.messages.create(**ask(thinking={"type": "odd"}), stream=True)
    # Clients that were given OpenAI's base URL send to /v1/v1/messages.
    with anthropic.Anthropic(**options(served, base_url=served.base_url)) as other:
        assert text_of(other.messages.create(**ask())) == DIALOGUES["capital"].reply


@pytest.mark.clients(57)
def test_keys(served: Served, models: Any) -> None:
    with serving(models, Settings(api_keys=("right",))) as keyed:
        for key in ({"api_key": "right"}, {"api_key": None, "auth_token": "right"}):
            with anthropic.Anthropic(**options(keyed, **key)) as client:
                assert text_of(client.messages.create(**ask())) == DIALOGUES["capital"].reply
        with (
            anthropic.Anthropic(**options(keyed, api_key="wrong")) as client,
            pytest.raises(anthropic.AuthenticationError, match="not one of this server's"),
        ):
            client.messages.create(**ask())


async def test_async(async_client: anthropic.AsyncAnthropic) -> None:
    whole = await async_client.messages.create(**ask("text and call"))
    assert [block.type for block in whole.content] == ["text", "tool_use"]
    async with async_client.messages.stream(**ask("text and call")) as stream:
        pieces = [event.partial_json async for event in stream if event.type == "input_json"]
        final = await stream.get_final_message()
    assert text_of(final) == text_of(whole) == "Let me look."
    assert json.loads("".join(pieces)) == whole.content[1].input == final.content[1].input
    page = await async_client.models.list()
    assert [model.type for model in page.data] == ["model"] * 3
