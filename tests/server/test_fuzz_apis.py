"""Requests to every API that hypothesis makes, valid and spoiled: none is a fault of the server's.

`test_openapi` sends what the schemas allow, or nearly; here any value may stand in any field, and
bodies break off, hold bytes that are no text, and numbers that are none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from maxi_mlx.api.openapi import Documented
from maxi_mlx.server.routes import DOCUMENTED
from tests.server.one_of_each import LANGUAGE, serving_one_of_each
from tests.sounds import needs_speech, voice, wav
from tests.vectors.conftest import needs_extra

NUM_EXAMPLES = 40

pytestmark = [needs_extra, needs_speech, pytest.mark.slow, pytest.mark.clients(25, 27, 48)]

JSON_BODIES = [each for each in DOCUMENTED if each.operation.bodies]
FORMS = [each for each in DOCUMENTED if each.operation.is_form]

# Values that are wrong in most places, and right in some.
ODD = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, -2, 0.5, 1e308, 2**63, 2**70, "", "x" * 5000, "\x00"),
        *("\u2028", "👩‍👩‍👧", "json", "auto", "required", "base64", "0s", "system"),
        *([], [None], [[]], [5], [-1], [10**9], [1.5], ["a", 5], {}, {"a": {}}, [{}]),
        *({"type": "x"}, {"type": "enabled"}, {"type": "json_schema"}, {"name": "f"}),
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "allowed_tools", "tools": [{"name": "f"}]},
        {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}],
        [{"type": "custom", "name": "f", "format": {"type": "grammar"}}],
        [{"type": "namespace", "name": "n", "tools": [{"type": "namespace"}]}],
        [{"name": "f", "input_schema": {"type": "object"}}],
        [{"role": "user", "content": [{"type": "tool_result", "content": 5}]}],
        [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}],
        [{"role": "tool", "content": "x"}, {"role": "user", "content": "y"}],
        [{"role": "assistant", "content": "x"}],
        [{"type": "function_call_output", "output": []}],
        [{"type": "item_reference", "id": "x"}],
    ]
)
ANY = ODD | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
# What is no JSON, or no value that can be held.
RAW = (b"NaN", b"-Infinity", b"1e999", b"9" * 500, b'"\\ud800"', b"\xff", b"[" * 9000)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_one_of_each(tmp_path_factory.mktemp("fuzz")) as served:
        yield served.base_url.removesuffix("/v1")


def bounded(test: Any) -> Any:
    limits = settings(
        max_examples=NUM_EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return seed(25)(limits(test))


def field_names(route: Documented) -> list[str]:
    read = {name for body in route.operation.bodies for name in body.__struct_fields__}
    return sorted(read | route.operation.fields.keys())


def check(answer: requests.Response, sent: object) -> None:
    said = (sent, answer.status_code, answer.content[:500])
    assert answer.status_code < 500, said
    if answer.status_code >= 400:
        assert answer.headers["Content-Type"] == "application/json", said
        assert answer.json()["error"], said


@pytest.mark.parametrize("route", JSON_BODIES, ids=lambda route: route.path)
def test_any_value_in_any_field(url: str, route: Documented) -> None:
    base: Mapping[str, Any] = route.operation.example or {"model": LANGUAGE}
    names = st.sampled_from(field_names(route))

    @bounded
    @given(st.dictionaries(names, ANY, max_size=3), st.data())
    def attack(fields: dict[str, Any], data: st.DataObject) -> None:
        body = json.dumps({**base, **fields}).encode()
        match data.draw(st.integers(0, 9)):
            case 0:
                body = body[: data.draw(st.integers(0, len(body)))]
            case 1:
                place = data.draw(st.integers(0, len(body) - 1))
                body = body[:place] + data.draw(st.binary(max_size=2)) + body[place + 1 :]
            case 2:
                name = json.dumps(data.draw(names)).encode()
                body = body[:-1] + b"," + name + b":" + data.draw(st.sampled_from(RAW)) + b"}"
            case _:
                pass
        sent = requests.request(route.method, url + route.path, data=body, timeout=120)
        check(sent, (route.path, body[:2000]))

    attack()


@pytest.mark.parametrize("route", FORMS, ids=lambda route: route.path)
def test_any_value_in_a_form(url: str, route: Documented) -> None:
    sound = wav(voice(0.4))
    names = st.sampled_from(sorted(route.operation.fields.keys() - {"file"}))
    odd = ("", "true", "-1", "1e9", "nan", "json", "vtt", "word", "de", "x" * 9000)
    words = st.sampled_from(odd)

    @bounded
    @given(st.lists(st.tuples(names, words | st.text(max_size=9)), max_size=4), st.data())
    def attack(fields: list[tuple[str, str]], data: st.DataObject) -> None:
        file = sound
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(file)))
            file = file[:place] + data.draw(st.binary(max_size=9)) + file[place + 4 :]
        parts = [("file", ("a.wav", file)), *((name, (None, value)) for name, value in fields)]
        check(requests.post(url + route.path, files=parts, timeout=120), (route.path, fields))

    attack()


def test_the_server_is_well_after_it(url: str) -> None:
    asked = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4}
    assert requests.post(f"{url}/v1/chat/completions", json=asked, timeout=120).status_code == 200
    end_s = time.monotonic() + 60
    while (health := requests.get(f"{url}/health", timeout=120).json())["engine"]["num_running"]:
        assert time.monotonic() < end_s, health  # a response in the background may go on a while
        time.sleep(0.05)
    assert health["status"] == "ok"
