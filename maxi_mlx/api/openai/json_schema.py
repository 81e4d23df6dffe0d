"""JSON schemas from clients: is it one at all? What of it can be enforced the engine knows.

Schemas are input from strangers: the walk is on a list of its own, not on Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.core.errors import InvalidRequest

MAX_SCHEMA_DEPTH = 100
_MAX_PATH_CHARS = 200

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

# Keywords by what stands under them.
_SCHEMAS = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"}
    | {"additionalItems", "unevaluatedItems", "unevaluatedProperties"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_TEXTS = frozenset({"$ref", "pattern", "format", "$id", "$schema"})
_NUMBERS = frozenset({"minimum", "maximum", "multipleOf"})
_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
    | {"minContains", "maxContains"}
)

_Found = tuple[str, Any, int]  # path, schema, depth


def check_schema(schema: object, path: str) -> None:
    """Raises `InvalidRequest` with the path of the first keyword that has a wrong value."""
    waiting: list[_Found] = [(path, schema, 0)]
    while waiting:
        place, part, depth = waiting.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            raise _wrong(place, "a schema: an object, true or false", part)
        if depth > MAX_SCHEMA_DEPTH:
            raise InvalidRequest(
                f"'{path}' nests more than {MAX_SCHEMA_DEPTH} schemas.", param=path
            )
        for keyword, value in part.items():
            inner = f"{place}.{keyword}"[-_MAX_PATH_CHARS:]
            waiting += _parts(keyword, value, inner, depth=depth + 1)


def check_arguments_schema(schema: Mapping[str, Any], path: str) -> None:
    """A tool's parameters: an object's schema."""
    check_schema(schema, path)
    kind = schema.get("type", "object")
    if kind != "object" and kind != ["object"]:
        raise InvalidRequest(
            f"'{path}.type' must be 'object', not {shown(kind)!r}: a tool's arguments are an "
            "object.",
            param=f"{path}.type",
        )


def _parts(keyword: str, value: Any, path: str, *, depth: int) -> Iterator[_Found]:
    """The schemas under a keyword; other keywords' values are checked here."""
    if keyword in _NAMED:
        if not isinstance(value, Mapping):
            raise _wrong(path, "an object", value)
        for name, part in value.items():
            yield f"{path}.{name}"[-_MAX_PATH_CHARS:], part, depth
    elif keyword in _LISTS or (keyword == "items" and isinstance(value, list)):
        if not isinstance(value, list):
            raise _wrong(path, "a list of schemas", value)
        for index, part in enumerate(value):
            yield f"{path}[{index}]", part, depth
    elif keyword in _SCHEMAS:
        yield path, value, depth
    else:
        _check_value(keyword, value, path)


def _check_value(keyword: str, value: Any, path: str) -> None:
    if keyword == "type":
        kinds = value if isinstance(value, list) and value else [value]
        for kind in kinds:
            if kind not in _TYPES:
                raise _wrong(path, f"one of {', '.join(_TYPES)}, or a list of them", kind)
    elif keyword == "required":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise _wrong(path, "a list of strings", value)
    elif keyword == "enum":
        if not isinstance(value, list) or not value:
            raise _wrong(path, "a list with at least one value", value)
    elif keyword in _TEXTS:
        if not isinstance(value, str):
            raise _wrong(path, "a string", value)
    elif keyword in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(path, "a number", value)
    elif keyword in _COUNTS and not (
        isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    ):
        raise _wrong(path, "a whole number from 0", value)


def _wrong(path: str, wanted: str, value: object) -> InvalidRequest:
    return InvalidRequest(f"'{path}' must be {wanted}, not {shown(value)!r}.", param=path)
