"""Tools and thoughts over HTTP: what the scripted model says is known, whatever it must say."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from maxi_mlx.catalog.catalog import Root
from maxi_mlx.core.settings import Settings
from tests.models.scripted import DIALOGUES, TOOLS, Dialogue
from tests.server.asking import CHAT, chunks_of
from tests.server.running import Client, Start

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
PARAMETERS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


@pytest.fixture
async def client(start: Start, scripted_model: Path) -> Client:
    return await start(Settings(), Root(scripted_model, "tests", "folders"))


@dataclass
class Said:
    """One answer, whole or joined from its chunks; the ids of calls are left out."""

    content: str = ""
    thought: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    reason: str | None = None
    tokens: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)

    @property
    def reasoning_tokens(self) -> int:
        return int(self.usage["completion_tokens_details"]["reasoning_tokens"])

    def check_calls(self, *, names: tuple[str, ...] = tuple(PARAMETERS)) -> None:
        assert self.calls
        for name, arguments in self.calls:
            assert name in names
            jsonschema.validate(json.loads(arguments), PARAMETERS[name])


def question(name: str) -> dict[str, Any]:
    dialogue: Dialogue = DIALOGUES[name]
    kwargs = dict(dialogue.template_kwargs)
    return {
        "messages": dialogue.messages,
        **({"tools": dialogue.tools} if dialogue.tools else {}),
        **({"chat_template_kwargs": kwargs} if kwargs else {}),
    }


async def say(client: Client, name: str, *, stream: bool = False, **more: Any) -> Said:
    [said] = await say_all(client, name, stream=stream, **more)
    return said


async def say_all(client: Client, name: str, *, stream: bool, **more: Any) -> list[Said]:
    ask = {"model": "scripted", "temperature": 0, **question(name), **more}
    answers = [Said() for _ in range(more.get("n", 1))]
    if not stream:
        answer = await client.post(CHAT, json=ask)
        assert answer.status == 200, answer.body
        for choice in answer.json["choices"]:
            said, message = answers[choice["index"]], choice["message"]
            said.content, said.thought = message["content"] or "", message.get("reasoning", "")
            assert message.get("reasoning_content", "") == said.thought
            functions = [call["function"] for call in message.get("tool_calls", ())]
            said.calls = [(call["name"], call["arguments"]) for call in functions]
            said.reason = choice["finish_reason"]
            said.tokens = (choice["logprobs"] or {}).get("content", [])
            said.usage = answer.json["usage"]
        return answers
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = chunks_of(await client.post(CHAT, json={**ask, **options}))
    for chunk in chunks:
        for choice in chunk["choices"]:
            _add(answers[choice["index"]], choice)
    for said in answers:
        said.usage = last["usage"]
    return answers


def _add(said: Said, choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    # One kind at a time; the role comes with an empty content.
    assert len({"content", "reasoning", "tool_calls"} & set(delta)) <= 1
    said.content += delta.get("content", "")
    said.thought += delta.get("reasoning", "")
    for call in delta.get("tool_calls", ()):
        function = call["function"]
        if "id" in call:
            said.calls.append((function["name"], function["arguments"]))
        else:
            name, arguments = said.calls[call["index"]]
            said.calls[call["index"]] = (name, arguments + function["arguments"])
    said.tokens += (choice["logprobs"] or {}).get("content", [])
    assert said.reason is None
    said.reason = choice["finish_reason"]


@pytest.mark.slow
@pytest.mark.clients(3, 5, 9, 20)
async def test_a_stream_joined_is_the_whole_answer(client: Client) -> None:
    asking = [say(client, name, stream=stream) for name in DIALOGUES for stream in (False, True)]
    answers = iter(await asyncio.gather(*asking))
    for name, dialogue in DIALOGUES.items():
        whole, streamed = next(answers), next(answers)
        whole.usage["prompt_tokens_details"] = streamed.usage["prompt_tokens_details"]
        assert streamed == whole
        if name not in ("tag in text", "broken call"):
            assert not any(tag in whole.content + whole.thought for tag in TAGS)
        if not whole.calls and not whole.thought:
            assert whole.content == dialogue.reply


CHOICES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("call", {"tool_choice": "auto"}, ["get_weather"]),
    ("call", {"tool_choice": "required"}, ["get_weather"]),
    ("call", {"tool_choice": {"type": "function", "function": {"name": "get_time"}}}, ["get_time"]),
    (
        "tools unused",
        {"tool_choice": {"type": "function", "function": {"name": "get_time"}}},
        ["get_time"],
    ),
    (
        "call",
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "get_time"}}],
                },
            }
        },
        ["get_time"],
    ),
    (
        "call",
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "get_time"}]}},
        ["get_time"],
    ),
]


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(("name", "fields", "names"), CHOICES, ids=str)
@pytest.mark.clients(13)
async def test_tool_choice(
    client: Client, name: str, fields: dict[str, Any], names: list[str], stream: bool
) -> None:
    said = await say(client, name, stream=stream, max_tokens=60, **fields)
    said.check_calls(names=tuple(names))
    assert (said.content, said.reason) == ("", "tool_calls")


@pytest.mark.clients(13, 35)
async def test_without_tools_to_choose_from_it_just_answers(client: Client) -> None:
    said = await say(client, "call", tool_choice="none")
    assert (said.content, said.calls) == (DIALOGUES["no tools"].reply, [])


@pytest.mark.slow
@BOTH
async def test_required_calls_where_the_model_would_talk(client: Client, stream: bool) -> None:
    """Draws at random; each has calls that fit."""
    for seed in range(8):
        fields = {"temperature": 1, "seed": seed, "max_tokens": 80, "n": 2}
        both = await say_all(
            client, "greeting", stream=stream, tools=TOOLS, tool_choice="required", **fields
        )
        for said in both:
            said.check_calls()
            assert said.reason == "tool_calls"
            assert not said.content


@BOTH
@pytest.mark.clients(12)
async def test_one_call_where_they_may_not_be_parallel(client: Client, stream: bool) -> None:
    said = await say(client, "two calls", stream=stream, parallel_tool_calls=False)
    assert said.calls == [("get_weather", '{"city": "Paris"}')]
    said = await say(
        client, "two calls", stream=stream, parallel_tool_calls=False, tool_choice="required"
    )
    assert said.calls == [("get_weather", '{"city": "Paris"}')]


STRICT = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]


@BOTH
async def test_strict_tools_are_held_to_their_schemas(client: Client, stream: bool) -> None:
    """Of itself the model would break this call."""
    said = await say(client, "broken call", stream=stream, tools=STRICT, max_tokens=60)
    said.check_calls(names=("get_weather",))
    assert said.reason == "tool_calls"
    said = await say(client, "tools unused", stream=stream, tools=STRICT)
    assert (said.content, said.reason) == (DIALOGUES["tools unused"].reply, "stop")
    said = await say(client, "tools unused", stream=stream, tools=STRICT, max_tokens=3)
    assert said.reason == "length"  # free text is never whole by itself
    # The model would call here, but there is no room for a call that fits.
    for max_tokens in (1, 10, 16):
        said = await say(client, "broken call", stream=stream, tools=STRICT, max_tokens=max_tokens)
        assert (said.content, said.calls, said.reason) == ("", [], "length")


@BOTH
async def test_a_call_that_ends_with_the_budget_is_whole(client: Client, stream: bool) -> None:
    called = ("get_weather", '{"city": "Paris"}')
    for max_tokens in (20, 21, 22, 60):
        said = await say(client, "call", stream=stream, max_tokens=max_tokens)
        assert (said.calls, said.reason) == ([called], "tool_calls"), max_tokens
    said = await say(client, "call", stream=stream, max_tokens=17)
    assert said.reason == "length"
    said = await say(client, "text and call", stream=stream, max_tokens=8)
    assert (said.calls, said.reason) == ([], "length")


@BOTH
async def test_a_form_beside_tools(client: Client, stream: bool) -> None:
    """It calls, or it answers in the form."""
    form = {"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}}
    said = await say(client, "call", stream=stream, response_format=form)
    assert said.calls == [("get_weather", '{"city": "Paris"}')]
    said = await say(client, "tools unused", stream=stream, response_format=form)
    if said.calls:
        said.check_calls()
    else:
        assert (said.content, said.reason) in [('"yes"', "stop"), ('"no"', "stop")]


# -- thoughts --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("name", "budget", "most"),
    [
        ("thinking_budget", 0, 4),
        ("thinking_token_budget", 3, 5),
        ("thinking_budget", 8, 10),
        ("thinking_budget", 1000, 1000),
    ],
)
async def test_a_thinking_budget(
    client: Client, name: str, budget: int, most: int, stream: bool
) -> None:
    """The model goes on from wherever its thought was closed."""
    said = await say(client, "thought", stream=stream, **{name: budget})
    # Cut in the middle of its thought it first says the rest of that aloud.
    assert said.content.endswith("The answer is 42.")
    assert (said.content == "The answer is 42.") is (budget != 8)
    assert said.reason == "stop"
    assert said.reasoning_tokens <= most
    whole = "17 + 20 is 37, and 5 more is 42."
    assert whole.startswith(said.thought)
    assert (said.thought == whole) is (budget > 100)
    assert bool(said.thought) is (budget > 3)


async def test_a_thought_without_an_end_is_closed(client: Client) -> None:
    said = await say(client, "endless thought", thinking_budget=10, max_tokens=40)
    assert said.reasoning_tokens < 16  # it begins a second one, which is closed at once
    assert said.content
    assert said.reason == "stop"


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_thinking": False},
        {"thinking": {"type": "disabled"}},
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
    ids=str,
)
async def test_no_thought(client: Client, fields: dict[str, Any]) -> None:
    said = await say(client, "thought", **fields)
    assert (said.content, said.thought, said.reasoning_tokens) == ("The answer is 42.", "", 0)


@BOTH
async def test_a_form_comes_after_the_thought(client: Client, stream: bool) -> None:
    said = await say(client, "thought", stream=stream, regex=r"The answer is \d{2}\.")
    assert said.thought == "17 + 20 is 37, and 5 more is 42."
    assert (said.content, said.reason) == ("The answer is 42.", "stop")
    said = await say(client, "thought", stream=stream, choice=["42", "37"], thinking_budget=6)
    assert said.content in ("42", "37")
    assert said.reasoning_tokens <= 8


@BOTH
@pytest.mark.parametrize(
    "fields", [{"enable_thinking": False}, {"thinking_budget": 0}, {"reasoning_effort": "none"}]
)
async def test_no_thought_before_a_form(
    client: Client, fields: dict[str, Any], stream: bool
) -> None:
    """Of itself the model would rather think than say these."""
    asked = {"choice": ["red", "blue"], **fields}
    said = await say(client, "greeting", stream=stream, **asked)
    assert said.content in ("red", "blue")
    assert (said.thought, said.reasoning_tokens) == ("", 0)
    said = await say(client, "thought and call", stream=stream, tool_choice="required", **fields)
    said.check_calls()
    assert (said.content, said.thought, said.reasoning_tokens) == ("", "", 0)


@BOTH
async def test_a_form_has_all_of_the_budget_where_there_is_no_thought(
    client: Client, stream: bool
) -> None:
    form = {"type": "json_object"}
    said = await say(client, "json", stream=stream, response_format=form, max_tokens=60)
    assert (said.content, said.reason) == (DIALOGUES["json"].reply, "stop")


async def test_a_refusal_names_the_tool(client: Client) -> None:
    bad = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=a)b"}}}
    tools = [*TOOLS, {"type": "function", "function": {"name": "odd", "parameters": bad}}]
    ask = {"model": "scripted", **question("call"), "tools": tools, "tool_choice": "required"}
    answer = await client.post(CHAT, json=ask)
    assert (answer.status, answer.error["param"]) == (400, "tool_choice")
    assert "the tool 'odd'" in answer.error["message"]
    assert "look-around" in answer.error["message"]


@BOTH
async def test_calls_come_after_the_thought(client: Client, stream: bool) -> None:
    said = await say(client, "thought and call", stream=stream, tool_choice="required")
    assert said.thought == "I have to look at a clock."
    assert said.calls == [("get_time", '{"city": "Tokyo"}')]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_tokens", "budget"),
    [(5, 0), (20, 0), (20, 20), (30, 4), (50, 20), (100, 4), (50, None)],
)
async def test_budgets_of_thought_and_answer_meet(
    client: Client, max_tokens: int, budget: int | None
) -> None:
    """Both ends at once: whichever closes the thought, what follows fits."""
    fields = {"max_tokens": max_tokens, "thinking_budget": budget, "temperature": 1, "n": 4}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    for seed in range(2):
        for said in await say_all(
            client, "thought", stream=False, seed=seed, response_format=form, **fields
        ):
            if max_tokens >= 20:
                jsonschema.validate(json.loads(said.content), schema)
            assert said.reason == "stop" or max_tokens < 20


# -- log-probabilities -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ["thought", "text and call", "emoji", "two calls", "broken call"])
async def test_log_probabilities_are_those_of_the_content(
    client: Client, name: str, stream: bool
) -> None:
    said = await say(client, name, stream=stream, logprobs=True, top_logprobs=1)
    data = b"".join(bytes(token["bytes"] or ()) for token in said.tokens)
    assert data.decode().strip() == said.content
    for token in said.tokens:
        assert token["logprob"] == token["top_logprobs"][0]["logprob"] <= 0


async def test_log_probabilities_of_tokens_that_a_grammar_chose(client: Client) -> None:
    said = await say(client, "greeting", regex="Hell[a-n]", logprobs=True, top_logprobs=1)
    data = b"".join(bytes(token["bytes"] or ()) for token in said.tokens)
    assert data.decode() == said.content
    assert said.content[:4] == "Hell"
    # The model's own, so that the one it was kept from is more likely.
    last = said.tokens[-1]
    assert last["logprob"] < last["top_logprobs"][0]["logprob"]
