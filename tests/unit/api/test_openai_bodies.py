"""What is no body at all, what is almost one, and that nothing else than a 400 comes of either."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxi_mlx.api.openai import (
    ChatCall,
    CompletionCall,
    error_body,
    parse_chat,
    parse_completion,
)
from maxi_mlx.api.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, RESPONSES_FIELDS
from maxi_mlx.core.errors import InvalidRequest

Parse = Callable[..., ChatCall | CompletionCall]
ENDPOINTS = pytest.mark.parametrize("parse", [parse_chat, parse_completion])

# Valid for both endpoints, as each skips what only the other knows.
BOTH: dict[str, Any] = {"prompt": "p", "messages": [{"role": "user", "content": "hi"}]}


def refusal(parse: Parse, body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(body, request_id="r")
    return caught.value


BROKEN = [
    (b"", None, "The request body is empty"),
    (b" \r\n\t", None, "The request body is empty"),
    (b"\xef\xbb\xbf", None, "The request body is empty"),
    (b"{", None, "not valid JSON: Expecting property name"),
    (b'{"model": "m"\n,}', None, "(line 2, column "),
    (b'{"model": "m"} x', None, "not valid JSON: Extra data"),
    (b"{'model': 'm'}", None, "not valid JSON"),
    (b"model=m&prompt=p", None, "not valid JSON"),
    (b"[]", None, "The request body must be an object, not a list."),
    (b"null", None, "The request body must be an object, not null."),
    (b'"hi"', None, "The request body must be an object, not a string."),
    (b"5", None, "The request body must be an object, not a whole number."),
    (b'{"model": "\xff"}', None, "is not UTF-8 text: byte 11"),
    (b'{"unknown": "\xff"}', None, "is not UTF-8 text: byte 13"),
    ('{"model": "m"}'.encode("utf-16"), None, "is not UTF-8 text: byte 0"),
    (b'{"model": "\\ud800"}', "model", "'model' has half of a surrogate pair"),
    (b'{"unknown": {"a": ["\\udfff"]}}', "unknown.a[0]", "half of a surrogate pair"),
    (b'{"\\ud800": 1}', None, "A field's name has half of a surrogate pair"),
    (b'{"temperature": NaN}', "temperature", "'temperature' is NaN"),
    (b'{"logit_bias": {"1": -Infinity}}', "logit_bias.1", "'logit_bias.1' is -Infinity"),
    (b'{"temperature": 1e999}', "temperature", "'temperature' is a number too large to read"),
    (b'{"seed": ' + b"9" * 5000 + b"}", "seed", "'seed' is a number too large to read"),
    (b'{"model": "a\x00b"}', None, "not valid JSON"),
    (b'{"a": tru}', None, "not valid JSON"),
    (b'{"seed": ' + b"9" * 5000 + b', "a": NaN}', "seed", "'seed' is a number too large to read"),
    (b'{"a": NaN, "seed": ' + b"9" * 5000 + b"}", None, "not valid JSON"),
    (b'{"a": ' + b'"x"' * 500_000, None, "not valid JSON"),
]


@ENDPOINTS
@pytest.mark.parametrize(
    ("body", "param", "words"), BROKEN, ids=[str(row[0][:40]) for row in BROKEN]
)
@pytest.mark.clients(39, 40)
def test_broken_bodies(parse: Parse, body: bytes, param: str | None, words: str) -> None:
    error = refusal(parse, body)
    assert error.param == param
    assert words in error.message


@ENDPOINTS
@pytest.mark.parametrize(
    "field", ["unknown", "messages", "prompt", "chat_template_kwargs", "tools"]
)
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["[", "{"])
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.clients(39)
def test_deep_nesting(
    parse: Parse, field: str, opening: bytes, closing: bytes, is_closed: bool
) -> None:
    depth = 100_000
    body = b'{"%b":' % field.encode() + opening * depth
    if is_closed:
        body += b"1" + closing * depth + b"}"
    assert len(refusal(parse, body).message) < 300


@pytest.mark.parametrize("depth", [10, 300, 700, 900, 950, 980, 1000])
def test_nested_arguments_are_text_or_a_mistake(depth: int) -> None:
    arguments = '{"a":' * depth + "1" + "}" * depth
    body = (
        '{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":'
        + arguments
        + "}}]}]}"
    ).encode()
    try:
        outcome = repr(parse_chat(body, request_id="r"))
    except InvalidRequest as error:
        outcome = error.message
    # Where the limit lies depends on how deep the caller's own stack is.
    assert arguments in outcome or (depth > 300 and "deeply" in outcome)


@ENDPOINTS
def test_a_byte_order_mark_is_skipped(parse: Parse) -> None:
    body = json.dumps(BOTH).encode()
    assert parse(b"\xef\xbb\xbf" + body, request_id="r") == parse(body, request_id="r")


@ENDPOINTS
def test_of_a_field_sent_twice_the_last_counts(parse: Parse) -> None:
    body = json.dumps({"n": 2, **BOTH}).encode()[:-1] + b',"n":3}'
    assert parse(body, request_id="r").request.n == 3


@ENDPOINTS
@pytest.mark.clients(37)
def test_a_large_body(parse: Parse) -> None:
    text = "é" * 4_000_000
    body = {"prompt": text, "messages": [{"role": "user", "content": text}]}
    call = parse(json.dumps(body, ensure_ascii=False).encode(), request_id="r")
    assert len(repr(call)) > len(text)


def parse_or_refuse(parse: Parse, body: bytes) -> None:
    try:
        call = parse(body, request_id="r")
    except InvalidRequest as error:
        refused = error
    else:
        assert call.request.id == "r"
        assert call.request.num_choices >= 1
        return
    assert refused.status == 400
    assert 0 < len(refused.message) < 600
    assert json.loads(error_body(refused))["error"]["message"] == refused.message


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["text", "user", "assistant", "none", "function_call", "image_url", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "role",
                    "content",
                    "id",
                    "function",
                    "name",
                    "arguments",
                    "tool_calls",
                ]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
FIELD_NAMES = sorted({*CHAT_FIELDS, *COMPLETION_FIELDS, *RESPONSES_FIELDS, "unknown"})


@pytest.mark.slow
@ENDPOINTS
@settings(max_examples=150)
@given(fields=st.dictionaries(st.sampled_from(FIELD_NAMES), json_values, max_size=4))
@pytest.mark.clients(25)
def test_any_fields(parse: Parse, fields: dict[str, Any]) -> None:
    parse_or_refuse(parse, json.dumps({**BOTH, **fields}).encode())


@ENDPOINTS
@settings(max_examples=100)
@given(item=json_values, shape=st.sampled_from(["messages", "input", "prompt", "parts"]))
@pytest.mark.clients(25)
def test_any_items(parse: Parse, item: object, shape: str) -> None:
    body: dict[str, Any] = {"prompt": [item], "input": [item]}
    if shape == "messages":
        body["messages"] = [item]
    elif shape == "parts":
        body["messages"] = [{"role": "assistant", "content": [item], "tool_calls": [item]}]
    parse_or_refuse(parse, json.dumps(body).encode())


@ENDPOINTS
@settings(max_examples=150)
@given(body=st.binary(max_size=64))
@pytest.mark.clients(25, 39)
def test_any_bytes(parse: Parse, body: bytes) -> None:
    parse_or_refuse(parse, body)


GOOD = json.dumps({**BOTH, "stop": ["é"], "logit_bias": {"1": 2}, "seed": 5}).encode()


@ENDPOINTS
@settings(max_examples=200)
@given(
    cut=st.tuples(st.integers(0, len(GOOD)), st.integers(0, len(GOOD))),
    patch=st.binary(max_size=4) | st.sampled_from([b"NaN", b"\\ud800", b"[[[[", b"null", b"1e9"]),
)
@pytest.mark.clients(25, 39)
def test_any_damage(parse: Parse, cut: tuple[int, int], patch: bytes) -> None:
    start, end = sorted(cut)
    parse_or_refuse(parse, GOOD[:start] + patch + GOOD[end:])
