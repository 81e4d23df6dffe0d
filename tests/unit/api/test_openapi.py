"""The OpenAPI document: all routes, all fields, and types that the writers' bytes fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from maxi_mlx.api.openapi import document
from maxi_mlx.server.routes import DOCUMENTED, ROUTES, TABLE
from tests.openapi import answer_schema, closed, described, operations
from tests.unit.api.test_docs import TABLES

HERE = Path(__file__).parent
JSON, EVENTS, LINES = "application/json", "text/event-stream", "application/x-ndjson"
MEDIA_TYPES = {".json": JSON, ".sse": EVENTS, ".ndjson": LINES}
FOLDERS = {
    "golden_anthropic": lambda file: "/v1/messages",
    "golden_responses": lambda file: "/v1/responses",
    "golden_ollama": lambda file: f"/api/{file.name.partition('_')[0]}",
    "golden": lambda file: (
        "/v1/completions" if file.name.startswith("completion") else "/v1/chat/completions"
    ),
}
GOLDEN = [(file, path(file)) for name, path in FOLDERS.items() for file in (HERE / name).iterdir()]


@pytest.fixture(scope="module")
def strict() -> dict[str, Any]:
    return closed(described())


def objects(file: Path) -> Iterator[Any]:
    match file.suffix:
        case ".json":
            yield json.loads(file.read_bytes())
        case ".ndjson":
            yield from map(json.loads, file.read_bytes().splitlines())
        case ".sse":
            for line in file.read_bytes().splitlines():
                if line.startswith(b"data: {"):
                    yield json.loads(line.removeprefix(b"data: "))


@pytest.mark.parametrize(("file", "path"), GOLDEN, ids=lambda value: getattr(value, "name", None))
def test_what_the_writers_write_fits_its_schema(
    strict: dict[str, Any], file: Path, path: str
) -> None:
    validator = Draft202012Validator(answer_schema(strict, path, MEDIA_TYPES[file.suffix]))
    found = list(objects(file))
    assert found
    for each in found:
        validator.validate(each)


def test_every_route_is_in_it() -> None:
    made = described()
    assert sum(len(methods) for methods in made["paths"].values()) == len(ROUTES) == len(TABLE)
    ids = [each["operationId"] for each in operations(made)]
    assert len(set(ids)) == len(ids)
    for each in operations(made):
        assert each["summary"]
        assert {"4XX", "5XX"} < each["responses"].keys() | {"200"}
    names = made["components"]["schemas"].keys()
    assert not [name for name in names if "__" in name or "maxi_mlx" in name]


BODIES = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v1/score": "score",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "count_tokens",
    "/api/chat": "api/chat",
    "/api/generate": "api/generate",
    "/api/embed": "api/embed",
    "/api/embeddings": "api/embeddings",
}


@pytest.mark.parametrize(("path", "table"), BODIES.items(), ids=BODIES)
def test_every_field_is_described(strict: dict[str, Any], path: str, table: str) -> None:
    schema = strict["paths"][path]["post"]["requestBody"]["content"][JSON]["schema"]
    name = schema.get("anyOf", [schema])[0]["$ref"].rpartition("/")[2]
    properties = strict["components"]["schemas"][name]["properties"]
    for field_name, field in TABLES[table].items():
        assert properties[field_name]["description"].endswith(field.note)


def test_keys_are_asked_for_where_they_are_needed() -> None:
    for has_keys in (False, True):
        made = document(DOCUMENTED, version="0", has_keys=has_keys)
        assert made["paths"]["/health"]["get"]["security"] == []
        needed = made["paths"]["/v1/models"]["get"]["security"]
        assert needed[-3:] == [{"bearer": []}, {"x-api-key": []}, {"api-key": []}]
        assert ({} in needed) is not has_keys
