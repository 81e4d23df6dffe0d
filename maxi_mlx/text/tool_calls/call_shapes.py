"""What each syntax looks like when it is written, for a grammar that makes a model write it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import Tool
from maxi_mlx.text.tool_calls.parameters import (
    Parameters,
    Unenforceable,
    alternatives,
    resolved,
)
from maxi_mlx.text.tool_calls.shape import (
    AnyOf,
    JsonBySchema,
    Literal,
    RawText,
    Repeat,
    Sequence,
    Shape,
    optional,
)
from maxi_mlx.text.tool_calls.values import kinds_of, quoted

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
# Names of parameters that can be written in a tag, in quotes in a tag, between tags.
BARE_NAMES, QUOTED_NAMES, OWN_NAMES = r"[^\s\"'<>]+", r'[^"<>\n]+', r"[^<>\s]([^<>\n]*[^<>\s])?"
CallShape = Callable[[Tool], Shape]
ValueShape = Callable[[Mapping[str, Any]], Shape]


def arguments(tool: Tool) -> Mapping[str, Any]:
    """The schema of a tool's arguments; one without parameters takes none."""
    if not tool.parameters:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return tool.parameters if tool.parameters.get("type") else {**tool.parameters, **ANY_OBJECT}


def json_call(before: str, between: str, after: str) -> CallShape:
    """A name and JSON arguments, with fixed text around; the name goes between the first two."""

    def shape(tool: Tool) -> Shape:
        head = Literal(before + tool.name + between)
        return Sequence((head, JsonBySchema(arguments(tool)), Literal(after)))

    return shape


def parameters_call(
    before: str,
    between: str,
    after: str,
    parameter: Callable[[str, Mapping[str, Any]], Shape],
    *,
    names: str,
    separator: str = "",
) -> CallShape:
    """A name, then ``parameter(name, schema)`` for each, in the schema's order; those that are not
    required may be left out. With a ``separator`` required ones come first. ``names`` is the
    pattern of those that can be written so."""

    def shape(tool: Tool) -> Shape:
        schema = arguments(tool)
        try:
            found = alternatives(schema)
        except Unenforceable as problem:
            raise InvalidRequest(
                f"The parameters of the tool {tool.name!r} can't be enforced in this model's "
                f"calls, which have a place for each: {problem}.",
                param="tools",
            ) from None
        return any_of(tuple(call(tool, one, schema) for one in found))

    def call(tool: Tool, parameters: Parameters, root: Mapping[str, Any]) -> Shape:
        required, every = parameters.required, list(parameters.schemas)
        _check_names(tool, every, re.compile(names))
        named = {name: parameter(name, resolved(parameters.of(name), root)) for name in every}
        parts: list[Shape] = [Literal(before + tool.name + between)]
        if separator:
            needed = [name for name in every if name in required]
            others = [name for name in every if name not in required]
            parts.append(_separated(named, needed, others, separator))
        else:
            parts += [named[name] if name in required else optional(named[name]) for name in every]
        return Sequence((*parts, Literal(after)))

    return shape


def _check_names(tool: Tool, parameters: Iterable[str], pattern: re.Pattern[str]) -> None:
    for name in parameters:
        if not pattern.fullmatch(name):
            raise InvalidRequest(
                f"The tool {tool.name!r} has a parameter {name[:80]!r}, a name that can't be "
                "written in this model's calls, so that these can't be enforced. Give it another "
                "name, of letters and underscores.",
                param="tools",
            )


def _separated(
    named: Mapping[str, Shape], needed: list[str], others: list[str], separator: str
) -> Shape:
    """Needed parameters, then any of the others, in order, with a separator between two."""
    parts: list[Shape] = []
    for name in needed:
        if parts:
            parts.append(Literal(separator))
        parts.append(named[name])
    after = [Sequence((Literal(separator), named[name])) for name in others]
    if needed:
        return Sequence((*parts, *(optional(part) for part in after)))
    firsts: list[Shape] = [
        Sequence((named[name], *(optional(part) for part in after[i + 1 :])))
        for i, name in enumerate(others)
    ]
    return optional(AnyOf(tuple(firsts))) if firsts else Literal("")


def raw_value(until: str) -> ValueShape:
    """Strings as they are, up to ``until``; everything else as JSON."""

    def shape(schema: Mapping[str, Any]) -> Shape:
        if kinds_of(schema) != {"string"}:
            return JsonBySchema(schema)
        texts = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(texts, list):
            return any_of(tuple(Literal(text) for text in texts if isinstance(text, str)))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                return any_of(tuple(shape(option) for option in _options(schema, word)))
        if isinstance(schema.get("allOf"), list):
            together: dict[str, Any] = {}
            for option in _options(schema, "allOf"):
                together |= option
            return shape(together)
        return RawText(schema, until)

    return shape


def _options(schema: Mapping[str, Any], word: str) -> list[dict[str, Any]]:
    """Each with what is said of all of them."""
    rest = {key: value for key, value in schema.items() if key != word}
    return [{**rest, **option} for option in schema[word] if isinstance(option, Mapping)]


def quoted_value(quote: str) -> ValueShape:
    """As `raw_value`, with a quote on both sides of a string."""
    inner = raw_value(quote)

    def shape(schema: Mapping[str, Any]) -> Shape:
        if kinds_of(schema) != {"string"}:
            return JsonBySchema(schema)
        return Sequence((Literal(quote), inner(schema), Literal(quote)))

    return shape


def wrapped(
    before: str, between: str, after: str, value: ValueShape
) -> Callable[[str, Mapping[str, Any]], Shape]:
    """A parameter: its name between the first two texts, then its value, then the last."""

    def shape(name: str, schema: Mapping[str, Any]) -> Shape:
        return Sequence((Literal(before + name + between), value(schema), Literal(after)))

    return shape


def typed_parameter(
    opening: Callable[[str, bool], str], after: str
) -> Callable[[str, Mapping[str, Any]], Shape]:
    """A parameter whose ``opening(name, is_string)`` tag says whether it is a string."""
    value = raw_value(after)

    def shape(name: str, schema: Mapping[str, Any]) -> Shape:
        head = opening(name, kinds_of(schema) == {"string"})
        return Sequence((Literal(head), value(schema), Literal(after)))

    return shape


def xtml_parameter(name: str, schema: Mapping[str, Any]) -> Shape:
    """A parameter of Kimi K3, whose tag names its JSON type."""
    kinds = kinds_of(schema)
    kind = next(iter(kinds)) if len(kinds) == 1 else "object"
    end = "<|close|>argument<|sep|>"
    key = name.replace("&", "&amp;").replace('"', "&quot;")
    head = Literal(f'<|open|>argument key="{key}" type="{kind}"<|sep|>')
    return Sequence((head, raw_value(end)(schema), Literal(end)))


def python_parameter(name: str, schema: Mapping[str, Any]) -> Shape:
    return Sequence((Literal(f"{name}="), JsonBySchema(schema)))


def name_literal(name: str) -> str:
    """A name as it stands in JSON, without its quotes."""
    return quoted(name)[1:-1]


def any_of(shapes: tuple[Shape, ...]) -> Shape:
    return shapes[0] if len(shapes) == 1 else AnyOf(shapes)


def repeated(shape: Shape, *, is_parallel: bool, separator: str) -> Shape:
    return Repeat(shape, 1, None, separator) if is_parallel else shape
