"""Calls that are required, in the syntax of every family, by models that know nothing: they parse,
and their arguments fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from maxi_mlx.core.events import (
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from maxi_mlx.core.request import ChatPrompt, Message, Reasoning, SamplingParams, Tool, ToolChoice
from maxi_mlx.engine.engine import Engine
from maxi_mlx.text.tool_calls import syntaxes
from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from tests.engine.asking import make_request
from tests.engine.conftest import make_engine
from tests.engine.speakers import accepted, build_deaf_speaker, build_speaker, random_tools

Speaker = Callable[..., Path]
CITY = Tool(
    name="get_weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
            "unit": {"enum": ["C", "F"]},
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)
NOW = Tool(name="now")


@pytest.fixture(scope="session")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Speaker:
    root = tmp_path_factory.mktemp("speakers")

    def folder_of(syntax: ToolSyntax | None, *, thinks: bool = False) -> Path:
        name = "deaf" if syntax is None else syntax.name.replace("_", "-")
        folder = root / f"{name}{'-thinks' if thinks else ''}"
        if folder.exists():
            return folder
        if syntax is None:
            return build_deaf_speaker(folder)
        return build_speaker(folder, syntax, thinks=thinks)

    return folder_of


async def calls_of(
    engine: Engine, model: str, tools: tuple[Tool, ...], **more: Any
) -> list[list[tuple[str, str]]]:
    """The calls of every answer, after checking that there is nothing beside them."""
    prompt = ChatPrompt(messages=(Message(role="user", text="Go."),), tools=tools)
    settings: dict[str, Any] = {"max_tokens": 120, "tool_choice": ToolChoice(mode="required")}
    request = make_request(prompt, model=model, **settings | more)
    calls: list[list[tuple[str, str]]] = [[] for _ in range(request.num_choices)]
    async for event in engine.generate(request):
        match event:
            case ToolCallStart(choice, index, _, name):
                assert index == len(calls[choice])
                calls[choice].append((name, ""))
            case ToolCallDelta(choice, index, arguments):
                name, before = calls[choice][index]
                calls[choice][index] = (name, before + arguments)
            case TextDelta(_, text):
                assert not text, calls
            case Finished(_, reason):
                assert reason == "tool_calls"
            case Failed(error):
                raise error
            case ReasoningDelta(_, text):
                assert text
    return calls


def check(calls: list[tuple[str, str]], tools: tuple[Tool, ...]) -> None:
    by_name = {tool.name: tool for tool in tools}
    assert calls
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), accepted(by_name[name]))


def drawn(seed: int) -> SamplingParams:
    return SamplingParams(temperature=1.0, seed=seed)


# The rest are slow together.
_QUICK = (None, syntaxes.JSON_TOOLS, syntaxes.QWEN3_CODER, syntaxes.LLAMA3, syntaxes.HARMONY)


@pytest.mark.slow
@pytest.mark.parametrize(
    "syntax",
    [
        pytest.param(
            syntax,
            marks=() if syntax in _QUICK else pytest.mark.slow,
            id=syntax.name if syntax else "generic",
        )
        for syntax in (*syntaxes.ALL, None)
    ],
)
async def test_calls_in_every_syntax(speaker: Speaker, syntax: ToolSyntax | None) -> None:
    folder = speaker(syntax)
    tools = (CITY, NOW)
    async with make_engine([folder]) as engine:
        answers = await calls_of(engine, folder.name, tools, n=3, sampling=drawn(1))
        for calls in answers:
            check(calls, tools)
        [calls] = await calls_of(
            engine, folder.name, tools, parallel_tool_calls=False, sampling=drawn(2)
        )
        check(calls, tools)
        assert len(calls) == 1
        choice = ToolChoice(mode="required", names=("now",))
        [calls] = await calls_of(engine, folder.name, tools, tool_choice=choice, sampling=drawn(3))
        check(calls, (NOW,))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [None, 0, 6])
async def test_a_thought_comes_first(speaker: Speaker, budget: int | None) -> None:
    folder = speaker(syntaxes.QWEN3_CODER, thinks=True)
    async with make_engine([folder]) as engine:
        answers = await calls_of(
            engine,
            folder.name,
            (CITY, NOW),
            n=4,
            max_tokens=160,
            sampling=drawn(5),
            reasoning=Reasoning(budget_tokens=budget),
        )
    for calls in answers:
        check(calls, (CITY, NOW))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_fifty_sets_of_tools(speaker: Speaker) -> None:
    """In the syntaxes in turn, with thoughts and without."""
    for seed in range(50):
        tools = random_tools(seed)
        folder = speaker(syntaxes.ALL[seed % len(syntaxes.ALL)], thinks=seed % 4 > 1)
        async with make_engine([folder]) as engine:
            for calls in await calls_of(
                engine, folder.name, tools, n=2, max_tokens=400, sampling=drawn(seed)
            ):
                check(calls, tools)


@pytest.mark.parametrize(
    "syntax",
    [
        pytest.param(syntax, marks=() if syntax in _QUICK else pytest.mark.slow, id=syntax.name)
        for syntax in syntaxes.ALL
    ],
)
async def test_of_a_call_that_is_cut_no_markup_is_told(
    speaker: Speaker, syntax: ToolSyntax
) -> None:
    """However few tokens there are: nothing but calls could have come of it."""
    folder = speaker(syntax)
    prompt = ChatPrompt(messages=(Message(role="user", text="Go."),), tools=(CITY, NOW))
    reasons = []
    async with make_engine([folder]) as engine:
        for max_tokens in range(1, 7):
            request = make_request(
                prompt,
                model=folder.name,
                max_tokens=max_tokens,
                sampling=drawn(max_tokens),
                tool_choice=ToolChoice(mode="required"),
            )
            async for event in engine.generate(request):
                assert not (isinstance(event, TextDelta) and event.text), (max_tokens, event)
                if isinstance(event, Finished):
                    reasons.append(event.reason)
    assert reasons[0] == "length"
    assert len(reasons) == 6
