"""Turns a parameter's plain text, as XML-like syntaxes write it, into JSON by the tool's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from maxi_mlx.text.source import Source
from maxi_mlx.text.tool_calls.json_copier import NUMBER, JsonCopier, Malformed

_KINDS = ("integer", "number", "boolean", "object", "array", "null", "string")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WHOLE_FLOAT = re.compile(r"(-?[0-9]+)\.0+")
_MAX_DEPTH = 8  # of anyOf in anyOf


def quoted(text: str) -> str:
    """The JSON of a string, characters left as they are."""
    return json.dumps(text, ensure_ascii=False)


def kinds_of(schema: Any, *, depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema names; none where it leaves them open."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return frozenset()
    named = schema.get("type")
    found = {named} if isinstance(named, str) else set()
    if isinstance(named, list):
        found.update(kind for kind in named if isinstance(kind, str))
    if not found:
        values = schema.get("enum")
        values = values if isinstance(values, list) else []
        found.update(_kind(value) for value in (*values, *_constant(schema)))
    if not found and any(not kinds for kinds in _of_options(schema, ("anyOf", "oneOf"), depth)):
        return frozenset()  # one option is open, such as a reference
    for kinds in _of_options(schema, ("anyOf", "oneOf", "allOf"), depth):
        found |= kinds
    return frozenset(found) & frozenset(_KINDS)


def _of_options(
    schema: Mapping[str, Any], words: Sequence[str], depth: int
) -> list[frozenset[str]]:
    lists = [schema[word] for word in words if isinstance(schema.get(word), list)]
    return [kinds_of(option, depth=depth + 1) for options in lists for option in options]


def _constant(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    return (schema["const"],) if "const" in schema else ()


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def is_text(schema: Any) -> bool:
    """Whether a value can only be a string, so that it may be told before it has ended."""
    return kinds_of(schema) == {"string"}


def mended_json(text: str) -> str | None:
    """``text`` as one JSON value, small mistakes mended; None if it is none."""
    source = Source()
    source.add(text.strip())
    source.close()
    parts: list[str] = []
    copier = JsonCopier(source, parts.append)
    try:
        for _ in copier.value():
            return None  # can't be: nothing more will come
    except Malformed:
        return None
    return None if source.num_unread else "".join(parts)


def _is_string(text: str) -> bool:
    """Whether it is the JSON of one."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return False
    try:
        return isinstance(json.loads(text), str)
    except ValueError:
        return False


def typed_json(text: str, schema: Any) -> str:
    """The JSON of a parameter written as ``text``. What does not fit its type stays a string, so
    that whoever answers the call can say what is wrong."""
    kinds = kinds_of(schema)
    if kinds == {"string"}:
        return quoted(text)
    bare = text.strip()
    word = bare.lower()
    # Where a value need not be a string, one that is may come in JSON's quotes.
    if isinstance(schema, Mapping) and (not kinds or "string" in kinds) and _is_string(bare):
        return bare
    if word in ("null", "none") and (not kinds or "null" in kinds):
        return "null"
    if (not kinds or kinds & {"integer", "number"}) and NUMBER.fullmatch(bare):
        whole = _WHOLE_FLOAT.fullmatch(bare) if "number" not in kinds and kinds else None
        return whole[1] if whole else bare
    if "boolean" in kinds and word in _TRUE | _FALSE:
        return "true" if word in _TRUE else "false"
    if not kinds and word in ("true", "false"):
        return word
    if bare[:1] in ("{", "[") and (not kinds or kinds & {"object", "array"}):
        mended = mended_json(bare)
        if mended is not None:
            return mended
    return quoted(text)
