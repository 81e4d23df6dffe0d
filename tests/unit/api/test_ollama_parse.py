"""Bodies of Ollama's API to requests of the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import ollama
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.api.ollama import parse_chat, parse_embed, parse_embeddings, parse_generate
from maxi_mlx.api.ollama.context import decode_context, encode_context
from maxi_mlx.api.ollama.fields import (
    CHAT_FIELDS,
    EMBED_FIELDS,
    EMBEDDINGS_FIELDS,
    GENERATE_FIELDS,
    OPTION_FIELDS,
)
from maxi_mlx.api.ollama.models import ShownModel, show_body, tags_body
from maxi_mlx.api.ollama.schema import (
    ChatBody,
    EmbedBody,
    EmbeddingsBody,
    GenerateBody,
    OptionsItem,
)
from maxi_mlx.api.openai.fields import Field
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.core.request import (
    NO_LIMIT,
    ChatPrompt,
    GenerateRequest,
    Message,
    Reasoning,
    SamplingParams,
    TextPrompt,
)
from tests.server.test_fuzz import JUNK

TABLES: dict[str, tuple[Mapping[str, Field], type[msgspec.Struct], type[Any]]] = {
    "chat": (CHAT_FIELDS, ChatBody, ollama._types.ChatRequest),
    "generate": (GENERATE_FIELDS, GenerateBody, ollama._types.GenerateRequest),
    "options": (OPTION_FIELDS, OptionsItem, ollama.Options),
    "embed": (EMBED_FIELDS, EmbedBody, ollama._types.EmbedRequest),
    "embeddings": (EMBEDDINGS_FIELDS, EmbeddingsBody, ollama._types.EmbeddingsRequest),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table_has_what_the_package_sends_and_what_is_read(name: str) -> None:
    table, body, sent = TABLES[name]
    assert set(sent.model_fields) <= set(table)
    read = {field.name for field in msgspec.structs.fields(body)}
    assert read == {name for name, field in table.items() if field.treatment != "ignored"}


def chat(**more: Any) -> GenerateRequest:
    ask = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], **more}
    return parse_chat(json.dumps(ask).encode(), request_id="req-1").request


def prompt_of(request: GenerateRequest) -> ChatPrompt:
    [prompt] = request.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt


@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        ({}, SamplingParams()),
        ({"temperature": 0.5, "top_p": 0.9}, SamplingParams(temperature=0.5, top_p=0.9)),
        ({"top_k": -1, "min_p": 0.1}, SamplingParams(top_k=0, min_p=0.1)),
        ({"repeat_penalty": 1.1}, SamplingParams(repetition_penalty=1.1)),
        ({"repeat_penalty": 1.1, "repeat_last_n": 64}, SamplingParams(repetition_penalty=1.1)),
        ({"repeat_penalty": 1.1, "repeat_last_n": 0}, SamplingParams(repetition_penalty=1.0)),
        (
            {"presence_penalty": 1, "frequency_penalty": -1},
            SamplingParams(presence_penalty=1, frequency_penalty=-1),
        ),
        ({"seed": 7}, SamplingParams(seed=7)),
        ({"seed": -1}, SamplingParams()),
        ({"mirostat": 2, "num_gpu": 99, "no_such": {}}, SamplingParams()),
    ],
    ids=str,
)
def test_options(options: dict[str, Any], sampling: SamplingParams) -> None:
    assert chat(options=options).sampling == sampling


@pytest.mark.parametrize(
    ("num_predict", "expected"),
    [(5, 5), (1, 1), (0, NO_LIMIT), (-1, NO_LIMIT), (-2, NO_LIMIT), (None, None)],
)
def test_num_predict(num_predict: int | None, expected: int | None) -> None:
    assert chat(options={"num_predict": num_predict}).max_tokens == expected


@pytest.mark.parametrize(
    ("think", "expected", "kwargs"),
    [
        (None, Reasoning(), {}),
        ("", Reasoning(), {}),
        (True, Reasoning(enabled=True), {"enable_thinking": True}),
        (False, Reasoning(enabled=False), {"enable_thinking": False}),
        (
            "low",
            Reasoning(effort="low", enabled=True),
            {"reasoning_effort": "low", "enable_thinking": True},
        ),
        (
            "none",
            Reasoning(effort="none", enabled=False),
            {"reasoning_effort": "none", "enable_thinking": False},
        ),
    ],
)
def test_think(think: Any, expected: Reasoning, kwargs: dict[str, Any]) -> None:
    request = chat(think=think)
    assert request.reasoning == expected
    assert prompt_of(request).template_kwargs == kwargs


def test_results_belong_to_calls_by_id_name_or_order() -> None:
    def call(name: str, **more: str) -> dict[str, Any]:
        return {**more, "function": {"name": name, "arguments": {"a": 1}}}

    turns = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "tool_calls": [call("x"), call("y"), call("y", id="z9"), call("w")]},
        {"role": "tool", "tool_name": "y", "content": "by name"},
        {"role": "tool", "tool_call_id": "z9", "content": "by id"},
        {"role": "tool", "content": "by order"},
        {"role": "tool", "tool_name": "v", "content": "of none"},
    ]
    _, calling, *results = prompt_of(chat(messages=turns)).messages
    assert [made.id for made in calling.tool_calls] == ["call_1", "call_2", "z9", "call_4"]
    assert calling.text is None
    assert calling.tool_calls[0].arguments == '{"a":1}'
    assert [(result.tool_call_id, result.name) for result in results] == [
        ("call_2", "y"),
        ("z9", "y"),
        ("call_1", "x"),
        (None, "v"),
    ]


def generate(**more: Any) -> Any:
    return parse_generate(json.dumps({"model": "tiny", **more}).encode(), request_id="req-1")


@pytest.mark.parametrize(
    ("more", "prompt"),
    [
        ({"prompt": "a", "raw": True}, TextPrompt("a")),
        ({"prompt": "a", "suffix": "b"}, TextPrompt("a", "b")),
        ({"suffix": "b"}, TextPrompt("", "b")),
        ({"prompt": "a"}, ChatPrompt(messages=(Message(role="user", text="a"),))),
        (
            {"prompt": "a", "system": "s", "template": "", "context": []},
            ChatPrompt(messages=(Message(role="system", text="s"), Message(role="user", text="a"))),
        ),
    ],
    ids=["raw", "suffix", "suffix alone", "prompt", "system"],
)
def test_prompts_of_generate(more: dict[str, Any], prompt: Any) -> None:
    assert generate(**more).request.prompts == (prompt,)


def test_a_new_system_message_takes_the_place_of_the_old() -> None:
    old = [Message(role="system", text="old"), Message(role="user", text="a")]
    found = generate(prompt="b", system="new", context=encode_context(old)).history
    assert [(each.role, each.text) for each in found] == [
        ("system", "new"),
        ("user", "a"),
        ("user", "b"),
    ]


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text())))
def test_a_context_comes_back(turns: list[tuple[Any, str]]) -> None:
    messages = tuple(Message(role=role, text=text) for role, text in turns)
    context = encode_context(messages)
    assert decode_context(json.loads(json.dumps(context))) == messages


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1), st.booleans())
def test_no_other_context_is_taken(numbers: list[int], is_marked: bool) -> None:
    if is_marked:
        numbers = [encode_context(())[0], *numbers]
    with pytest.raises(InvalidRequest, match="'context' is not one"):
        decode_context(numbers)


@pytest.mark.parametrize(
    ("body", "inputs", "truncate"),
    [
        ({"input": "a"}, ("a",), True),
        ({"input": ["a", "b"], "truncate": False}, ("a", "b"), False),
        ({"input": ""}, (), True),
        ({"input": []}, (), True),
    ],
)
def test_embed(body: dict[str, Any], inputs: tuple[str, ...], truncate: bool) -> None:
    call = parse_embed(json.dumps(body).encode(), request_id="req-1")
    assert (call.request.inputs, call.request.truncate) == (inputs, truncate)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({}, "input"),
    ],
)
def test_embed_refuses(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_embed(json.dumps(body).encode(), request_id="req-1")
    assert refusal.value.param == param


@pytest.mark.parametrize("name", TABLES)
def test_whatever_is_sent_is_taken_or_refused(name: str) -> None:
    parses: dict[str, Any] = {
        "chat": parse_chat,
        "generate": parse_generate,
        "embed": parse_embed,
        "embeddings": parse_embeddings,
        "options": parse_chat,
    }
    num_taken = num_refused = 0
    for field in TABLES[name][0]:
        for junk in JUNK:
            ask: dict[str, Any] = {"input": "a", "prompt": "a"}
            ask["messages"] = [{"role": "user", "content": "Hi"}]
            if name == "options":
                ask["options"] = {field: junk}
            else:
                ask[field] = junk
            try:
                parses[name](json.dumps(ask).encode(), request_id="req-1")
                num_taken += 1
            except InvalidRequest:
                num_refused += 1
    assert num_taken > 0
    assert num_refused > 0


def test_the_older_embeddings_have_one_prompt() -> None:
    call = parse_embeddings(b'{"prompt": "a"}', request_id="req-1")
    assert (call.request.inputs, call.is_older) == (("a",), True)


def entry(name: str, **more: Any) -> ModelEntry:
    fields: dict[str, Any] = {
        "id": name,
        "path": Path("/models") / name,
        "kind": "language",
        "org_name": None,
        "source": "tests",
        "model_type": "qwen3",
        "architecture": "Qwen3ForCausalLM",
        "weight_bytes": 10,
        "quantization": "4-bit",
        "context_length": 4096,
        "created": 1_700_000_000,
    }
    return ModelEntry(**{**fields, **more})


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("SmolLM2-135M-Instruct", "135M"),
        ("Qwen3-0.6B-4bit", "0.6B"),
        ("Qwen3-30B-A3B-4bit", "30B"),
        ("Mixtral-8x7B-v0.1", "8X7B"),
        ("bge-m3", ""),
        ("phi-4-4bit", ""),
        ("acme-7b/scripted", ""),
    ],
)
def test_the_size_comes_from_the_name(name: str, size: str) -> None:
    [model] = json.loads(tags_body([entry(name)]))["models"]
    assert model["details"]["parameter_size"] == size


def test_what_cannot_be_asked_here_is_not_listed() -> None:
    models = [
        entry("a"),
        entry("b", kind="speech"),
        entry("c", kind="reranker"),
        entry("d", kind="embedding"),
        entry("e", problem="no weights"),
    ]
    listed = json.loads(tags_body(models))["models"]
    assert [model["name"] for model in listed] == ["a", "d"]


@pytest.mark.parametrize(
    ("shown", "capabilities"),
    [
        ({}, ["completion"]),
        ({"takes_tools": True, "thinks": True}, ["completion", "tools", "thinking"]),
        ({"fills_in": True}, ["completion", "insert"]),
    ],
)
def test_capabilities(shown: dict[str, bool], capabilities: list[str]) -> None:
    body = json.loads(show_body(ShownModel(entry=entry("a"), **shown)))
    assert body["capabilities"] == capabilities
    assert body["model_info"]["qwen3.context_length"] == 4096
    assert (".Suffix" in body["template"]) == shown.get("fills_in", False)


def test_an_embedding_model_only_embeds() -> None:
    body = json.loads(show_body(ShownModel(entry=entry("a", kind="embedding"))))
    assert body["capabilities"] == ["embedding"]
