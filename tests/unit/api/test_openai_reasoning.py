"""How the model is to think: the wire's names for it, one value in the core."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.openai import parse_chat
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import ChatPrompt, GenerateRequest, Reasoning


def request_of(**fields: Any) -> GenerateRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return parse_chat(json.dumps(body).encode(), request_id="r").request


@pytest.mark.parametrize(
    ("fields", "reasoning", "variables"),
    [
        ({}, Reasoning(), {}),
        (
            {"reasoning_effort": "high"},
            Reasoning(effort="high"),
            {"reasoning_effort": "high"},
        ),
        (
            {"reasoning_effort": "none"},
            Reasoning(effort="none", enabled=False),
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
        (
            {"reasoning_effort": "none", "enable_thinking": True},
            Reasoning(effort="none", enabled=True),
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
        ({"enable_thinking": False}, Reasoning(enabled=False), {"enable_thinking": False}),
        ({"thinking": True}, Reasoning(enabled=True), {"enable_thinking": True}),
        (
            {"thinking": {"type": "disabled"}},
            Reasoning(enabled=False),
            {"enable_thinking": False},
        ),
        ({"thinking": {"type": "adaptive"}}, Reasoning(), {}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            Reasoning(enabled=True, budget_tokens=1024),
            {"enable_thinking": True},
        ),
        ({"thinking_budget": 0}, Reasoning(budget_tokens=0), {}),
        ({"thinking_budget": -1}, Reasoning(), {}),
        ({"thinking_token_budget": 5}, Reasoning(budget_tokens=5), {}),
        ({"thinking_budget": 7, "thinking_token_budget": 5}, Reasoning(budget_tokens=7), {}),
        (
            {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}},
            Reasoning(enabled=False),
            {"enable_thinking": False},
        ),
        (
            {"chat_template_kwargs": {"thinking": False}},
            Reasoning(enabled=False),
            {"enable_thinking": False, "thinking": False},
        ),
        (
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": "yes"}},
            Reasoning(effort="none", enabled=False),
            {"reasoning_effort": "none", "enable_thinking": "yes"},
        ),
    ],
    ids=str,
)
def test_names(fields: dict[str, Any], reasoning: Reasoning, variables: dict[str, Any]) -> None:
    request = request_of(**fields)
    assert request.reasoning == reasoning
    (prompt,) = request.prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.template_kwargs == variables


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"enable_thinking": "no"}, "enable_thinking", "true or false"),
        ({"thinking": 5}, "thinking", "must be true or false or an object"),
        ({"thinking": {"type": "deep"}}, "thinking.type", "'deep'"),
        ({"thinking": {"budget_tokens": -2}}, "thinking.budget_tokens", "from 0"),
        ({"thinking_budget": 1.5}, "thinking_budget", "a whole number"),
        ({"thinking_budget": 2**31}, "thinking_budget", "from 0"),
        ({"thinking_budget": 1, "thinking_token_budget": -3}, "thinking_token_budget", "-3"),
        ({"reasoning_effort": 5}, "reasoning_effort", "a string"),
    ],
    ids=str,
)
def test_a_mistake_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        request_of(**fields)
    assert caught.value.param == param
    assert words in caught.value.message
