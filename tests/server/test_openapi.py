"""schemathesis on every operation of /openapi.json: no server error, no answer off its schema."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from maxi_mlx.server.routes import DOCUMENTED
from tests.openapi import answer_schema, closed
from tests.server.one_of_each import LANGUAGE, serving_one_of_each
from tests.sounds import needs_speech, voice, wav
from tests.vectors.conftest import needs_extra

# In all it takes about a minute.
NUM_EXAMPLES = 60
SEED = 7
SECOND_NAME = "second"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# A stream that has no end of its own; test_status_events.py holds it to its schema.
ENDLESS = "/v1/status/events"
STREAMS = ("text/event-stream", "application/x-ndjson")


@dataclass
class Attacked:
    """A running server, and what it says of itself, held to that alone."""

    url: str
    document: dict[str, Any]
    schema: Any
    answers: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def likely(self, parameter: str) -> str:
        """What a path's parameter could be."""
        if parameter in ("model", "file"):
            return LANGUAGE if parameter == "model" else "app.js"
        return self.request_id() if parameter == "request_id" else self.response_id()

    def response_id(self) -> str:
        """Of a response that is there."""
        body = {"input": "Hello!", "max_output_tokens": 2}
        return str(requests.post(f"{self.url}/v1/responses", json=body, timeout=60).json()["id"])

    def second_name(self) -> str:
        """One that can go without the model."""
        body = {"source": LANGUAGE, "destination": SECOND_NAME}
        requests.post(f"{self.url}/api/copy", json=body, timeout=60).raise_for_status()
        return SECOND_NAME

    def request_id(self) -> str:
        """Of a request that is under way."""
        body = {"input": "Hello!", "background": True}
        answer = requests.post(f"{self.url}/v1/responses", json=body, timeout=60)
        return str(answer.json()["id"]).replace("resp_", "req-")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with serving_one_of_each(tmp_path_factory.mktemp("openapi")) as served:
        url = served.base_url.removesuffix("/v1")
        document = closed(requests.get(f"{url}/openapi.json", timeout=60).json())
        yield Attacked(url, document, schemathesis.openapi.from_dict(document))


@needs_extra
@needs_speech
@pytest.mark.slow
@pytest.mark.clients(25, 48)
@pytest.mark.parametrize(
    ("method", "path"),
    [(each.method, each.path) for each in DOCUMENTED if each.path != ENDLESS],
    ids=str,
)
def test_every_operation_is_as_described(attacked: Attacked, method: str, path: str) -> None:
    operation = attacked.schema[path][method]

    @seed(SEED)
    @settings(
        max_examples=NUM_EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def attack(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(GenerationMode)))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if data.draw(st.booleans()):
            make_likely(case, data, attacked)
        answer = case.call_and_validate(base_url=attacked.url, checks=CHECKS, timeout=120)
        attacked.answers[method, path, answer.status_code] += 1
        check_items(attacked.document, method, path, answer)

    attack()
    described = attacked.document["paths"][path][method.lower()]
    if "200" in described["responses"]:
        assert attacked.answers[method, path, 200], attacked.answers


def make_likely(case: Case, data: st.DataObject, attacked: Attacked) -> None:
    """A request that could be answered, with what was made up for one or two of its fields."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = attacked.likely(name)
    content = case.operation.definition.raw.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        case.body = {**some_of(case.body, data), "file": wav(voice(0.4))}
    elif case.operation.path == "/api/delete":
        case.body = {"model": attacked.second_name()}
    elif case.operation.path == "/api/copy":
        case.body = {"source": LANGUAGE, "destination": SECOND_NAME}
    elif example := content.get("application/json", {}).get("example"):
        case.body = {**example, **some_of(case.body, data)}
    elif content:
        case.body = {"model": LANGUAGE, "instance_id": LANGUAGE}


def some_of(body: object, data: st.DataObject) -> dict[str, Any]:
    if not isinstance(body, Mapping) or not body:
        return {}
    names = data.draw(st.lists(st.sampled_from(sorted(body)), max_size=2))
    return {name: body[name] for name in names}


def check_items(document: dict[str, Any], method: str, path: str, answer: Any) -> None:
    """Every event or line of a stream, against the schema of one."""
    media_type = answer.headers["content-type"][0].partition(";")[0]
    if answer.status_code != 200 or media_type not in STREAMS:
        return
    schema = answer_schema(document, path, media_type, method=method.lower())
    validator = Draft202012Validator(schema)
    for line in io.BytesIO(answer.content):
        if media_type == "application/x-ndjson" or line.startswith(b"data: {"):
            validator.validate(json.loads(line.removeprefix(b"data: ")))
