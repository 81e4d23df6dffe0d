"""The form an answer must have: many names on the wire, one value in the core.

It checks that a value is of the right kind; whether a grammar or pattern can be enforced the engine
knows, and names the same field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from maxi_mlx.api.openai.json_schema import check_schema
from maxi_mlx.api.openai.sampling import shown
from maxi_mlx.api.openai.schema import Format, GenerationBody, StructuredOutputs
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.grammar import (
    ANY_JSON_OBJECT,
    Constraint,
    Gbnf,
    Lark,
    Pattern,
    any_of_texts,
    json_by_schema,
)

MAX_OPTIONS = 4096

Value = TypeVar("Value")


def constraint(
    body: GenerationBody, *, text_format: Format | None = None, text_param: str = "text.format"
) -> Constraint | None:
    """``text_format`` is the Responses API's field. Two forms at once are a mistake: neither
    could be what the client meant."""
    found = list(_given(body, text_format, text_param))
    if len(found) > 1:
        raise InvalidRequest(
            f"'{found[1].param}' and '{found[0].param}' both say what form the answer must have; "
            "send one of them.",
            param=found[1].param,
        )
    return found[0] if found else None


def _given(
    body: GenerationBody, text_format: Format | None, text_param: str
) -> Iterator[Constraint]:
    for wanted, param in ((body.response_format, "response_format"), (text_format, text_param)):
        if wanted is not None and (found := _format(wanted, param)) is not None:
            yield found
    for name in ("json_schema", "guided_json"):
        yield from _each(getattr(body, name), name, make=_schema)
    for name in ("regex", "guided_regex"):
        yield from _each(getattr(body, name), name, make=_regex)
    for name in ("choice", "guided_choice"):
        yield from _each(getattr(body, name), name, make=_options)
    for name in ("grammar", "guided_grammar"):
        yield from _each(getattr(body, name), name, make=_grammar)
    if body.structured_outputs is not None:
        yield from _structured(body.structured_outputs, "structured_outputs")


def _each(
    value: Value | None, param: str, *, make: Callable[[Value, str], Constraint]
) -> Iterator[Constraint]:
    if value is not None:
        yield make(value, param)


def _structured(outputs: StructuredOutputs, path: str) -> Iterator[Constraint]:
    if outputs.structural_tag is not None:
        raise InvalidRequest(
            f"'{path}.structural_tag' is not served; send a grammar.",
            param=f"{path}.structural_tag",
        )
    yield from _each(outputs.json, f"{path}.json", make=_schema)
    yield from _each(outputs.regex, f"{path}.regex", make=_regex)
    yield from _each(outputs.choice, f"{path}.choice", make=_options)
    yield from _each(outputs.grammar, f"{path}.grammar", make=_grammar)
    if outputs.json_object:
        yield Constraint(node=ANY_JSON_OBJECT, param=f"{path}.json_object")


def _format(wanted: Format, path: str) -> Constraint | None:
    match wanted.type:
        case "text":
            return None
        case "json_object" if wanted.schema is None:
            return Constraint(node=ANY_JSON_OBJECT, param=path)
        case "json_object":  # llama.cpp's way to send a schema
            return _schema(wanted.schema, f"{path}.schema")
        case "json_schema":
            inner = wanted if wanted.json_schema is None else wanted.json_schema
            place = path if wanted.json_schema is None else f"{path}.json_schema"
            if inner.schema is None:
                missing = f"{path}.json_schema.schema"
                raise InvalidRequest(f"'{missing}' is missing.", param=missing)
            return _schema(inner.schema, f"{place}.schema")
        case None:
            raise InvalidRequest(f"'{path}.type' is missing.", param=f"{path}.type")
        case unknown:
            raise InvalidRequest(
                f"'{path}.type' must be 'text', 'json_object' or 'json_schema', not "
                f"{shown(unknown)!r}.",
                param=f"{path}.type",
            )


def _schema(value: Any, path: str) -> Constraint:
    if isinstance(value, str):  # vLLM takes the schema as text too
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise InvalidRequest(f"'{path}' is a text, but not one of JSON.", param=path) from None
    check_schema(value, path)
    try:
        node = json_by_schema(value)
    except RecursionError:  # what stands in an enum or a default may nest as it likes
        raise InvalidRequest(f"'{path}' nests too deeply.", param=path) from None
    return Constraint(node=node, param=path)


def _regex(pattern: str, path: str) -> Constraint:
    if not pattern:
        raise InvalidRequest(f"'{path}' is an empty pattern, which allows no text.", param=path)
    return Constraint(node=Pattern(pattern), param=path)


def _options(options: list[str], path: str) -> Constraint:
    if not options:
        raise InvalidRequest(f"'{path}' is an empty list; give something to choose.", param=path)
    if len(options) > MAX_OPTIONS:
        raise InvalidRequest(
            f"'{path}' has {len(options)} texts; at most {MAX_OPTIONS} are allowed.", param=path
        )
    for index, option in enumerate(options):
        if not option:
            param = f"{path}[{index}]"
            raise InvalidRequest(f"'{param}' is an empty text.", param=param)
    return Constraint(node=any_of_texts(list(dict.fromkeys(options))), param=path)


def _grammar(text: str, path: str) -> Constraint:
    """Of the two notations only llama.cpp's has ``::=``."""
    if not text.strip():
        raise InvalidRequest(f"'{path}' is an empty grammar.", param=path)
    return Constraint(node=Gbnf(text) if "::=" in text else Lark(text), param=path)
