"""The document of all routes in tests, held more strictly than it promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from maxi_mlx.api.openapi import document
from maxi_mlx.server.routes import DOCUMENTED

PREFIX = "#/components/schemas/"


def described() -> dict[str, Any]:
    """The document, as a client that reads it over the wire has it."""
    made = document(DOCUMENTED, version="0", has_keys=False)
    return dict(json.loads(json.dumps(made)))


def closed(document: dict[str, Any]) -> dict[str, Any]:
    """The same, with no keys in answers that the document doesn't name."""
    schemas = document["components"]["schemas"]
    waiting = list(_references([each["responses"] for each in operations(document)]))
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _references(schemas[name])
            if "properties" in schemas[name]:
                schemas[name]["additionalProperties"] = False
    return document


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def answer_schema(
    document: dict[str, Any], path: str, media_type: str, *, method: str = "post"
) -> dict[str, Any]:
    """Of the object that a request is answered by, or of each of a stream, on its own."""
    content = document["paths"][path][method]["responses"]["200"]["content"][media_type]
    schema = content["schema"]
    schema = schema.get("properties", {}).get("data", schema)
    return {**schema.get("contentSchema", schema), "components": document["components"]}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str) and reference.startswith(PREFIX):
            yield reference.removeprefix(PREFIX)
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)
