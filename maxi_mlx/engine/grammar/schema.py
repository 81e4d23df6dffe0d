"""Checks a JSON schema from a stranger before it is compiled: its size, its depth, and every
keyword in it that can't be enforced, by its place. Also collects the words that JSON by it may
hold, which help to find a short end. Knows nothing of tokens.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.engine.grammar import formats
from maxi_mlx.engine.grammar.ecma import rust_pattern
from maxi_mlx.engine.grammar.examples import ends_in_escape, example
from maxi_mlx.engine.grammar.least_size import LARGE, LeastSize

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64
# Numbers that share a divisor are told by an automaton with a state for each remainder.
_MAX_DIVISOR = 100_000
_MAX_WORDS = 400
_MAX_WORD_LENGTH = 80

# Keywords of JSON Schema that change what is valid, and can't be enforced.
_UNENFORCED = frozenset(
    {
        "not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems",
        "dependencies", "dependentRequired", "dependentSchemas", "propertyNames",
        "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
        "contentSchema",
    }
)  # fmt: skip
# What such a keyword says when it says nothing; llguidance would refuse even that.
_NEUTRAL: Mapping[str, Any] = {"uniqueItems": False, "unevaluatedItems": True}
_ONE_SCHEMA = frozenset({"items", "additionalItems", "additionalProperties"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})


@dataclass(slots=True)
class CheckedSchema:
    """``keys`` and ``values``: JSON texts of required keys, and of constants, shortest first.
    ``pieces``: texts that patterns and formats allow, without their quotes. ``growth``: bytes that
    the longest of its parts needs at the least."""

    schema: dict[str, Any]
    keys: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    growth: int = 0


def check_schema(text: str) -> CheckedSchema:
    """Raises `InvalidRequest`, without a param, for what is too large or can't be enforced."""
    checked = CheckedSchema(_read(text))
    divisors: list[Decimal] = []
    sizes = LeastSize(checked.schema)
    if sizes.is_endless:
        raise InvalidRequest(
            "No JSON fits it: by a '$ref' that can't be left out it holds itself without an end."
        )
    for path, part in _subschemas(checked.schema):
        for keyword, neutral in _NEUTRAL.items():
            if part.get(keyword) is neutral:
                del part[keyword]
        _check_keywords(path, part)
        if isinstance(divisor := part.get("multipleOf"), int | float):
            divisors.append(Decimal(str(divisor)))
        checked.keys += [
            json.dumps(key, ensure_ascii=False) for key in _strings(part.get("required"))
        ]
        checked.values += _constants(part)
        checked.pieces += _examples(part)
        _translate_patterns(part)
        if (size := sizes.of(part)) < LARGE:
            checked.growth = max(checked.growth, size)
    _check_divisors(divisors)
    checked.keys = list(dict.fromkeys(checked.keys))[:_MAX_WORDS]
    checked.values = _shortest(checked.values)
    checked.pieces = _shortest(checked.pieces)
    return checked


def _read(text: str) -> dict[str, Any]:
    num_bytes = len(text.encode("utf-8", errors="surrogatepass"))
    if num_bytes > MAX_SCHEMA_BYTES:
        raise InvalidRequest(
            f"The schema has {num_bytes} bytes; the most is {MAX_SCHEMA_BYTES}. Make it smaller."
        )
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The schema is no JSON: {error}") from error
    if schema is False:
        raise InvalidRequest("No JSON fits it: the schema is 'false'.")
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise InvalidRequest(
            f"A schema must be an object, but this one is {type(schema).__name__}."
        )
    return schema


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema with its path, itself first; instances are not entered."""
    waiting: list[tuple[str, Any, int]] = [("", schema, 0)]
    while waiting:
        path, part, depth = waiting.pop()
        if depth > MAX_SCHEMA_DEPTH:
            raise InvalidRequest(
                f"The schema is nested more than {MAX_SCHEMA_DEPTH} deep, at {path[:200]}. Use "
                "$ref, or make it flatter."
            )
        if not isinstance(part, dict):
            continue
        yield path, part
        for keyword, value in part.items():
            at = f"{path}.{keyword}" if path else keyword
            if keyword in _SCHEMA_MAPS and isinstance(value, dict):
                waiting += [(f"{at}.{name}", inner, depth + 1) for name, inner in value.items()]
            elif keyword in _SCHEMA_LISTS and isinstance(value, list):
                waiting += [(f"{at}[{i}]", inner, depth + 1) for i, inner in enumerate(value)]
            elif keyword in _ONE_SCHEMA:
                waiting.append((at, value, depth + 1))


def _check_keywords(path: str, part: Mapping[str, Any]) -> None:
    before = f"{path}." if path else ""
    for keyword in part:
        if keyword in _UNENFORCED:
            raise InvalidRequest(
                f"The keyword {keyword!r} of JSON Schema can't be enforced (at {before}{keyword}). "
                "Leave it out."
            )
    if "x-guidance" in part:
        raise InvalidRequest("A schema can't set 'x-guidance'. Leave it out.")
    kind, name = part.get("type", "string"), part.get("format")
    if isinstance(name, str) and name not in formats.PATTERNS and "string" in kind:
        raise InvalidRequest(
            f"The format {name[:80]!r} can't be enforced (at {before}format). Leave it out."
        )
    for keyword, pattern in _patterns(part):
        if ends_in_escape(pattern):
            raise InvalidRequest(f"A pattern ends with a lone backslash (at {before}{keyword}).")
    divisor = part.get("multipleOf")
    if isinstance(divisor, int | float) and not (divisor > 0 and math.isfinite(divisor)):
        raise InvalidRequest(f"'multipleOf' must be a number above 0, not {divisor!r}.")


def _patterns(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Regular expressions, with the keyword that each stands under."""
    pattern, named = part.get("pattern"), part.get("patternProperties")
    found = [("pattern", pattern)] if isinstance(pattern, str) else []
    return found + [("patternProperties", key) for key in named or () if isinstance(named, dict)]


def _translate_patterns(part: dict[str, Any]) -> None:
    if isinstance(part.get("pattern"), str):
        part["pattern"] = rust_pattern(part["pattern"])
    if isinstance(named := part.get("patternProperties"), dict):
        part["patternProperties"] = {rust_pattern(key): value for key, value in named.items()}


def _check_divisors(divisors: list[Decimal]) -> None:
    """Schemas that are merged (``allOf``, ``$ref``) merge their divisors, so all count together."""
    if not divisors:
        return
    places = max(0, *(-int(divisor.normalize().as_tuple().exponent) for divisor in divisors))
    common = math.lcm(*(int(divisor.scaleb(places)) for divisor in divisors)) if places < 20 else 0
    if not 0 < common <= _MAX_DIVISOR:
        raise InvalidRequest(
            f"'multipleOf' with {', '.join(map(str, divisors[:5]))} needs too large an automaton. "
            f"The least common multiple, in their last digit, may be {_MAX_DIVISOR} at most."
        )


def _strings(value: Any) -> list[str]:
    strings = value if isinstance(value, list) else []
    return [text for text in strings if isinstance(text, str) and len(text) <= _MAX_WORD_LENGTH]


def _constants(part: Mapping[str, Any]) -> list[str]:
    options = part["enum"] if isinstance(part.get("enum"), list) else []
    if "const" in part:
        options = [*options, part["const"]]
    return _as_json(_strings(options))


def _as_json(texts: list[str]) -> list[str]:
    return [json.dumps(text, ensure_ascii=False) for text in texts]


def _examples(part: Mapping[str, Any]) -> list[str]:
    texts = []
    if isinstance(pattern := part.get("pattern"), str) and (text := example(pattern)):
        texts.append(text)
    if isinstance(name := part.get("format"), str) and name in formats.EXAMPLES:
        texts.append(formats.EXAMPLES[name])
    return [text[1:-1] for text in _as_json(texts)]


def _shortest(texts: list[str]) -> list[str]:
    return sorted(set(texts), key=lambda text: (len(text), text))[:_MAX_WORDS]
