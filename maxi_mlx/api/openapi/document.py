"""Routes and what is said of them to one OpenAPI document. Knows neither sockets nor handlers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from maxi_mlx.api.openapi.components import Components, Schema, words
from maxi_mlx.api.openapi.operation import JSON, LINES, Content, Operation, Query

VERSION = "3.1.0"

_TAGS = {
    "OpenAI": "Chats, text completions, embeddings, transcriptions and models in OpenAI's form.",
    "Responses": "OpenAI's Responses API.",
    "Anthropic": "The Messages API.",
    "Rerank": "Reranking in Jina's and Cohere's form, and scores in vLLM's.",
    "Ollama": "Ollama's own API.",
    "LM Studio": "LM Studio's own API.",
    "Server": "What the server says of itself.",
}
_PARAMETER = re.compile(r"{(\w+)}")
_KEYS: Mapping[str, Schema] = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "api-key": {"type": "apiKey", "in": "header", "name": "Api-Key"},
}
_EVENT_NOTE = (
    "One event of many. Comments keep a silent stream alive; OpenAI's older APIs end with "
    "`data: [DONE]`, which is no JSON."
)
_ERRORS = {
    "4XX": (
        "The request can't be served as it is: 400 a field is wrong or not served, 401 no key, 403 "
        "a foreign web page, 404 no such model or path, 405, 413 too large, 415 not JSON, 429 the "
        "queue is full."
    ),
    "5XX": (
        "500 the server failed, 501 a part isn't installed, 503 there is no memory for the model "
        "now, or the server is ending."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """A route as clients are told of it; ``path`` has its parameters in braces."""

    method: str
    path: str
    operation: Operation


class OpenAPIDocument(TypedDict):
    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, str]]
    tags: list[dict[str, str]]
    paths: dict[str, dict[str, Any]]
    components: dict[str, Any]


def document(routes: Iterable[Documented], *, version: str, has_keys: bool) -> OpenAPIDocument:
    """``has_keys``: the server answers none who shows no key."""
    routes = tuple(routes)
    components = Components(each for route in routes for each in _types(route.operation))
    paths: dict[str, Schema] = {}
    for route in routes:
        described = _operation(route, components, has_keys=has_keys)
        paths.setdefault(route.path, {})[route.method.lower()] = described
    return {
        "openapi": VERSION,
        "info": {
            "title": "maxi-mlx",
            "version": version,
            "summary": "Local MLX models under the APIs that AI clients speak.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "securitySchemes": dict(_KEYS),
            "headers": {
                "RequestId": {
                    "description": "The request's id, by which the server's log knows it.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            },
        },
    }


def _types(operation: Operation) -> Iterable[type]:
    yield from operation.bodies
    yield from (part for part, _ in operation.parts)
    yield from operation.errors
    for content in operation.answers:
        yield from content.types


def _operation(route: Documented, components: Components, *, has_keys: bool) -> Schema:
    operation = route.operation
    described: Schema = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": _id(route),
        "responses": {
            **_answers(operation, components),
            **{status: _error(status, operation, components) for status in _ERRORS},
        },
        "security": _security(operation, has_keys=has_keys),
    }
    if parameters := [*_path_parameters(route.path), *_parameters(operation)]:
        described["parameters"] = parameters
    if operation.bodies or operation.is_form:
        described["requestBody"] = {"required": True, "content": _body(operation, components)}
    return described


def _id(route: Documented) -> str:
    """``post_v1_chat_completions``"""
    return "_".join(re.findall(r"\w+", f"{route.method.lower()}/{route.path}"))


def _headers() -> Schema:
    return {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}


def _security(operation: Operation, *, has_keys: bool) -> list[Schema]:
    if not operation.needs_key:
        return []
    keys: list[Schema] = [{name: []} for name in _KEYS]
    return keys if has_keys else [{}, *keys]


def _answers(operation: Operation, components: Components) -> Schema:
    """None of an endpoint that refuses all requests."""
    contents = {each.media_type: _content(each, components) for each in operation.answers}
    if not contents:
        return {}
    return {"200": {"description": "The answer.", "headers": _headers(), "content": contents}}


def _content(content: Content, components: Components) -> Schema:
    text: Schema = {"type": "string"}
    if not content.types:
        return {"schema": text}
    schema = components.any_of(content.types)
    if not content.is_stream:
        return {"schema": schema}
    text |= {"contentMediaType": JSON, "contentSchema": schema}
    if content.media_type == LINES:
        return {"schema": {**text, "description": "Lines of such JSON."}}
    event = {
        "type": "object",
        "description": _EVENT_NOTE,
        "properties": {"event": {"type": "string"}, "data": text},
        "required": ["data"],
    }
    return {"schema": event}


def _error(status: str, operation: Operation, components: Components) -> Schema:
    schema = components.any_of(operation.errors)
    return {
        "description": _ERRORS[status],
        "headers": _headers(),
        "content": {JSON: {"schema": schema}},
    }


# -- what is sent ------------------------------------------------------------------------------


def _path_parameters(path: str) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(path)
    ]


def _parameters(operation: Operation) -> list[Schema]:
    return [*_asked(operation.query, "query"), *_asked(operation.headers, "header")]


def _asked(parameters: Sequence[Query], place: str) -> list[Schema]:
    return [
        {"name": each.name, "in": place, "description": each.note, "schema": {"type": each.type}}
        for each in parameters
    ]


def _body(operation: Operation, components: Components) -> Schema:
    if operation.is_form:
        return {"multipart/form-data": {"schema": _form(operation)}}
    for each in operation.bodies:
        components.describe(each, operation.fields)
    for part, fields in operation.parts:
        components.describe(part, fields)
    content: Schema = {"schema": components.any_of(operation.bodies)}
    if operation.example is not None:
        content["example"] = dict(operation.example)
    return {JSON: content}


def _form(operation: Operation) -> Schema:
    """A form's parts are texts, those of lists repeated, and one is a file."""
    parts: dict[str, Any] = {}
    for name, field in operation.fields.items():
        if name == "file":
            part: Schema = {"type": "string", "format": "binary"}
        elif name.endswith("[]"):
            part = {"type": "array", "items": {"type": "string"}}
        else:
            part = {"type": "string"}
        parts[name] = {**part, "description": words(field)}
    return {"type": "object", "properties": parts, "required": ["file"]}
