"""Bodies of /chat/completions: what each becomes, and what each mistake is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from maxi_mlx.api.openai import ChatCall, parse_chat
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import (
    NO_LIMIT,
    ChatPrompt,
    GenerateRequest,
    Message,
    SamplingParams,
)

USER = [{"role": "user", "content": "hi"}]


def parse(**fields: Any) -> ChatCall:
    return parse_chat(
        json.dumps({"model": "m", "messages": USER, **fields}).encode(), request_id="r"
    )


def template_kwargs(**fields: Any) -> dict[str, Any]:
    prompt = parse(**fields).request.prompts[0]
    assert isinstance(prompt, ChatPrompt)
    return dict(prompt.template_kwargs)


def refusal(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(body, request_id="r")
    return caught.value


def refusal_of(**fields: Any) -> InvalidRequest:
    return refusal(json.dumps({"model": "m", "messages": USER, **fields}).encode())


PLAIN = GenerateRequest(
    id="r", model="m", prompts=(ChatPrompt(messages=(Message(role="user", text="hi"),)),)
)


def test_the_smallest_body() -> None:
    assert parse() == ChatCall(request=PLAIN, stream=False, include_usage=False)


EVERY_SAMPLING_OPTION = SamplingParams(
    temperature=0.5,
    top_p=0.9,
    top_k=40,
    min_p=0.05,
    xtc_probability=0.5,
    xtc_threshold=0.2,
    repetition_penalty=1.1,
    presence_penalty=-1.0,
    frequency_penalty=2.0,
    logit_bias=((7, -100.0), (42, 1.5)),
    seed=123,
)


def test_every_option_arrives() -> None:
    call = parse(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        xtc_probability=0.5,
        xtc_threshold=0.2,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=2,
        logit_bias={"7": -100, "42": 1.5},
        seed=123,
        stop=["a", "b"],
        max_tokens=10,
        n=3,
        logprobs=True,
        top_logprobs=5,
        stream=True,
        stream_options={"include_usage": True},
    )
    assert call == ChatCall(
        request=GenerateRequest(
            id="r",
            model="m",
            prompts=PLAIN.prompts,
            n=3,
            max_tokens=10,
            stop=("a", "b"),
            sampling=EVERY_SAMPLING_OPTION,
            top_logprobs=5,
        ),
        stream=True,
        include_usage=True,
    )


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"max_tokens": -1}, "max_tokens", NO_LIMIT),
        ({"max_tokens": None}, "max_tokens", None),
        ({"max_completion_tokens": 5, "max_tokens": 9}, "max_tokens", 5),
        ({"max_completion_tokens": -1, "max_tokens": 9}, "max_tokens", NO_LIMIT),
        ({"max_completion_tokens": None, "max_tokens": 9}, "max_tokens", 9),
        ({"logprobs": True}, "top_logprobs", 0),
        ({"logprobs": True, "top_logprobs": None}, "top_logprobs", 0),
        ({"logprobs": True, "top_logprobs": 20}, "top_logprobs", 20),
        ({"logprobs": False, "top_logprobs": 0}, "top_logprobs", None),
        ({"stop": "x"}, "stop", ("x",)),
        ({"stop": []}, "stop", ()),
        ({"stop": [str(number) for number in range(64)]}, "stop", tuple(map(str, range(64)))),
        ({"n": 128}, "n", 128),
        ({"model": None}, "model", ""),
        ({"model": ""}, "model", ""),
    ],
    ids=str,
)
@pytest.mark.clients(21, 34)
def test_request_fields(fields: dict[str, Any], name: str, value: object) -> None:
    assert getattr(parse(**fields).request, name) == value


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"temperature": 0}, "temperature", 0.0),
        ({"temperature": 2}, "temperature", 2.0),
        ({"top_p": 1}, "top_p", 1.0),
        ({"top_k": 0}, "top_k", 0),
        ({"top_k": -1}, "top_k", 0),
        ({"xtc_probability": 1}, "xtc_probability", 1.0),
        ({"xtc_probability": None}, "xtc_probability", 0.0),
        ({"xtc_threshold": 0}, "xtc_threshold", 0.0),
        ({"xtc_threshold": None}, "xtc_threshold", 0.1),
        ({"repeat_penalty": 1.2}, "repetition_penalty", 1.2),
        ({"repeat_penalty": 1.2, "repetition_penalty": 1.3}, "repetition_penalty", 1.3),
        ({"seed": 2**64 - 1}, "seed", 2**64 - 1),
        ({"seed": -(2**63)}, "seed", -(2**63)),
        ({"logit_bias": {}}, "logit_bias", ()),
        ({"logit_bias": {"7": 1, "07": 2}}, "logit_bias", ((7, 2.0),)),
    ],
    ids=str,
)
def test_sampling_fields(fields: dict[str, Any], name: str, value: object) -> None:
    assert getattr(parse(**fields).request.sampling, name) == value


@pytest.mark.parametrize(
    ("fields", "include_usage"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
        ({"stream": True, "stream_options": {"include_usage": None}}, False),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": False, "stream_options": {"include_usage": True}}, False),
        ({"stream_options": {"include_usage": True}}, False),
    ],
    ids=str,
)
@pytest.mark.clients(6)
def test_usage_is_for_streams_that_ask(fields: dict[str, Any], include_usage: bool) -> None:
    assert parse(**fields).include_usage is include_usage


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"chat_template_kwargs": None}, {}),
        (
            {"chat_template_kwargs": {"enable_thinking": False, "x": [1]}},
            {"enable_thinking": False, "x": [1]},
        ),
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        (
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
    ],
    ids=str,
)
def test_template_kwargs(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert template_kwargs(**fields) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tools": None},
        {"tools": [], "tool_choice": "auto"},
        {"tool_choice": "none"},
        {"tool_choice": None, "parallel_tool_calls": True},
        {"tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}
        | {"tool_choice": "none"},
        {"functions": [], "function_call": "auto"},
        {"functions": [{"name": "f"}], "function_call": "none"},
        {"modalities": ["text"]},
        {"modalities": []},
        {"response_format": {"type": "text"}},
    ],
    ids=str,
)
@pytest.mark.clients(35, 36)
def test_harmless_values_of_what_is_not_served(fields: dict[str, Any]) -> None:
    assert parse(**fields).request == PLAIN


CHAT_MISTAKES = [
    ({"model": 5}, "model", "must be a string, not a whole number"),
    ({"model": "m" * 1025}, "model", "has 1025 characters"),
    ({"temperature": -0.1}, "temperature", "must be from 0 to 2, not -0.1"),
    ({"temperature": 2.1}, "temperature", "must be from 0 to 2, not 2.1"),
    ({"temperature": "hot"}, "temperature", "must be a number, not a string"),
    ({"temperature": True}, "temperature", "must be a number, not a boolean"),
    ({"top_p": 0}, "top_p", "must be above 0 and at most 1, not 0.0"),
    ({"top_p": 1.01}, "top_p", "not 1.01"),
    ({"top_k": -2}, "top_k", "not -2"),
    ({"top_k": 1.5}, "top_k", "must be a whole number, not a number with a decimal point"),
    ({"min_p": 1.1}, "min_p", "must be from 0 to 1, not 1.1"),
    ({"xtc_probability": 1.5}, "xtc_probability", "must be from 0 to 1, not 1.5"),
    ({"xtc_threshold": 0.6}, "xtc_threshold", "must be from 0 to 0.5, not 0.6"),
    ({"repetition_penalty": 0}, "repetition_penalty", "must be from 0.01 to 10"),
    ({"repeat_penalty": 11}, "repeat_penalty", "must be from 0.01 to 10"),
    ({"presence_penalty": 3}, "presence_penalty", "must be from -2 to 2, not 3.0"),
    ({"frequency_penalty": -3}, "frequency_penalty", "must be from -2 to 2, not -3.0"),
    ({"seed": 2**70}, "seed", "must be from -9223372036854775808 to 18446744073709551615"),
    ({"seed": -(2**63) - 1}, "seed", "must be from -9223372036854775808"),
    ({"seed": 1.5}, "seed", "must be a whole number, not a number with"),
    ({"n": 0}, "n", "must be from 1 to 128, not 0"),
    ({"n": 129}, "n", "must be from 1 to 128, not 129"),
    ({"n": 10**100}, "n", "not 1000000000000000000000000000000000000000…"),
    ({"max_tokens": 0}, "max_tokens", "must be at least 1, or -1 or null"),
    ({"max_tokens": -2}, "max_tokens", "not -2"),
    ({"max_completion_tokens": 5, "max_tokens": 0}, "max_tokens", "not 0"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "not 0"),
    ({"stop": "x" * 1001}, "stop", "has a string of 1001 characters; at most 1000 are allowed"),
    ({"stop": 5}, "stop", "must be a string or a list, not a whole number"),
    ({"stop": [None]}, "stop[0]", "must be a string, not null"),
    ({"stop": ""}, "stop", "is an empty string"),
    ({"stop": ["a", ""]}, "stop[1]", "is an empty string"),
    ({"stop": ["x"] * 65}, "stop", "has 65 strings; at most 64"),
    ({"logit_bias": []}, "logit_bias", "must be an object, not a list"),
    ({"logit_bias": {"a": 1}}, "logit_bias", "the key 'a'"),
    ({"logit_bias": {"-1": 1}}, "logit_bias", "the key '-1'"),
    ({"logit_bias": {"١": 1}}, "logit_bias", "the key '١'"),
    ({"logit_bias": {"": 1}}, "logit_bias", "the key ''"),
    ({"logit_bias": {"12345678901": 1}}, "logit_bias", "the key '12345678901'"),
    ({"logit_bias": {"1": 101}}, "logit_bias", "of token 1 must be from -100 to 100, not 101.0"),
    (
        {"logit_bias": {"1": "x"}},
        "logit_bias",
        "A value in 'logit_bias' must be a number, not a string",
    ),
    ({"logprobs": 5}, "logprobs", "must be true or false, not a whole number"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "must be from 0 to 20, not 21"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs", "must be from 0 to 20, not -1"),
    ({"top_logprobs": 3}, "top_logprobs", "needs 'logprobs': true"),
    ({"logprobs": False, "top_logprobs": 3}, "top_logprobs", "needs 'logprobs': true"),
    ({"stream": "yes"}, "stream", "must be true or false, not a string"),
    ({"stream_options": True}, "stream_options", "must be an object, not a boolean"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "true or false"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "not 'huge'"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs", "must be an object, not a list"),
]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    CHAT_MISTAKES,
    ids=[f"{param}-{words[:40]}" for _, param, words in CHAT_MISTAKES],
)
@pytest.mark.clients(32, 40)
def test_a_mistake_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    error = refusal_of(**fields)
    assert (error.status, error.param) == (400, param)
    assert words in error.message


NOT_SERVED = [
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
    ({"function_call": {"name": "f"}}, "function_call"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": "text"}, "response_format"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
    ({"moderation": {"model": "omni-moderation-latest"}}, "moderation"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
    ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    (
        {"chat_template_kwargs": {"add_generation_prompt": False}},
        "chat_template_kwargs.add_generation_prompt",
    ),
    ({"chat_template_kwargs": {"__class__": 1}}, "chat_template_kwargs.__class__"),
    ({"chat_template_kwargs": {"a b": 1}}, "chat_template_kwargs.a b"),
]


@pytest.mark.parametrize(("fields", "param"), NOT_SERVED, ids=str)
@pytest.mark.clients(29, 36)
def test_what_is_not_served_is_refused(fields: dict[str, Any], param: str) -> None:
    error = refusal_of(**fields)
    assert (error.status, error.param) == (400, param)
    assert param.split(".")[-1] in error.message
