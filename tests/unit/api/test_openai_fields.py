"""The table of fields, held against the openai package and against what parsing does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from maxi_mlx.api.openai import parse_chat, parse_completion
from maxi_mlx.api.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, RESPONSES_FIELDS, Field
from maxi_mlx.api.openai.schema import ChatBody, CompletionBody, GenerationBody, ResponsesBody
from maxi_mlx.core.errors import InvalidRequest

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"prompt": "p"}


def names(table: Mapping[str, Field], *treatments: str) -> set[str]:
    return {name for name, field in table.items() if field.treatment in treatments}


def test_every_field_of_the_openai_package_is_in_the_table() -> None:
    chat = set(chat_create_params.CompletionCreateParamsStreaming.__annotations__)
    completion = set(completion_create_params.CompletionCreateParamsStreaming.__annotations__)
    assert {"messages", "web_search_options", "stream"} <= chat
    assert {"prompt", "best_of", "stream"} <= completion
    assert chat <= set(CHAT_FIELDS)
    assert completion <= set(COMPLETION_FIELDS)


@pytest.mark.parametrize(
    ("table", "body"),
    [
        (CHAT_FIELDS, ChatBody),
        (COMPLETION_FIELDS, CompletionBody),
        ({**CHAT_FIELDS, **RESPONSES_FIELDS}, ResponsesBody),
    ],
    ids=["chat", "completion", "responses shape"],
)
def test_what_is_read_is_what_is_not_ignored(
    table: Mapping[str, Field], body: type[GenerationBody]
) -> None:
    read = {field.name for field in msgspec.structs.fields(body)}
    assert read == names(table, "honoured", "refused")


REFUSED_VALUES: Mapping[str, Any] = {
    "modalities": ["audio"],
    "audio": {"voice": "alloy"},
    "moderation": {"model": "m"},
    "web_search_options": {},
    "chat_template": "{{ x }}",
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "best_of": 2,
}


@pytest.mark.parametrize("name", sorted(names(CHAT_FIELDS, "refused")))
@pytest.mark.clients(29)
def test_refused_in_chat(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(json.dumps({**CHAT, name: REFUSED_VALUES[name]}).encode(), request_id="r")
    assert (caught.value.param or "").split(".")[0] == name


@pytest.mark.parametrize("name", sorted(names(RESPONSES_FIELDS, "refused")))
@pytest.mark.clients(29, 43)
def test_refused_in_the_responses_shape(name: str) -> None:
    body = {"input": "hi", name: REFUSED_VALUES[name]}
    with pytest.raises(InvalidRequest) as caught:
        parse_chat(json.dumps(body).encode(), request_id="r")
    assert (caught.value.param or "").split(".")[0] == name


@pytest.mark.parametrize("name", sorted(names(COMPLETION_FIELDS, "refused")))
@pytest.mark.clients(29, 45)
def test_refused_in_completions(name: str) -> None:
    body = {**COMPLETION, name: REFUSED_VALUES[name]}
    with pytest.raises(InvalidRequest) as caught:
        parse_completion(json.dumps(body).encode(), request_id="r")
    assert (caught.value.param or "").split(".")[0] == name


# Seen from real clients, and in no table.
EXTRAS = ["client_metadata", "draft_model", "cache_prompt", "keep_alive", "x"]


@pytest.mark.parametrize("value", [1, "x", None, [], {"a": [None]}], ids=repr)
@pytest.mark.parametrize("name", [*sorted(names(CHAT_FIELDS, "ignored")), *EXTRAS])
@pytest.mark.clients(28)
def test_ignored_in_chat(name: str, value: object) -> None:
    plain = parse_chat(json.dumps(CHAT).encode(), request_id="r")
    assert parse_chat(json.dumps({**CHAT, name: value}).encode(), request_id="r") == plain


@pytest.mark.parametrize("value", [1, "x", None, [], {"a": [None]}], ids=repr)
@pytest.mark.parametrize("name", [*sorted(names(COMPLETION_FIELDS, "ignored")), *EXTRAS])
@pytest.mark.clients(28)
def test_ignored_in_completions(name: str, value: object) -> None:
    plain = parse_completion(json.dumps(COMPLETION).encode(), request_id="r")
    body = {**COMPLETION, name: value}
    assert parse_completion(json.dumps(body).encode(), request_id="r") == plain


@pytest.mark.parametrize("name", sorted({*CHAT_FIELDS, *RESPONSES_FIELDS} - {"messages"}))
@pytest.mark.clients(27)
def test_null_is_absent_in_chat(name: str) -> None:
    plain = parse_chat(json.dumps(CHAT).encode(), request_id="r")
    assert parse_chat(json.dumps({**CHAT, name: None}).encode(), request_id="r") == plain


@pytest.mark.parametrize("name", sorted(set(COMPLETION_FIELDS) - {"prompt"}))
@pytest.mark.clients(27)
def test_null_is_absent_in_completions(name: str) -> None:
    plain = parse_completion(json.dumps(COMPLETION).encode(), request_id="r")
    body = {**COMPLETION, name: None}
    assert parse_completion(json.dumps(body).encode(), request_id="r") == plain
