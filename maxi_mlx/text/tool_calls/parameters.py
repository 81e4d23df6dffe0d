"""A tool's arguments one by one, for ways of writing calls that have a place for each.

A schema may spread them over references, over parts that all hold (``allOf``) and over parts one of
which holds (``anyOf``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Schema = Mapping[str, Any]

MAX_ALTERNATIVES = 32
_MAX_DEPTH = 8
# What is said of the arguments as a whole, which no single place for one of them can be held to.
_OF_THE_WHOLE = (
    *("not", "if", "dependencies", "dependentRequired", "dependentSchemas"),
    *("propertyNames", "unevaluatedProperties"),
)


class Unenforceable(Exception):
    """The arguments can't be held to their schema one by one; says why."""


@dataclass(slots=True)
class Parameters:
    """``schemas`` by name, in the schema's order: all that a value must fit."""

    schemas: dict[str, list[Any]] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)

    def of(self, name: str) -> Any:
        schemas = self.schemas[name]
        return schemas[0] if len(schemas) == 1 else {"allOf": schemas}


def alternatives(schema: Schema) -> list[Parameters]:
    """What the arguments may be. Raises `Unenforceable`."""
    found = _alternatives(schema, schema, 0)
    for one in found:
        for name in one.required - one.schemas.keys():
            one.schemas[name] = [{}]  # named nowhere else: anything
        for name in [name for name in one.schemas if False in one.schemas[name]]:
            del one.schemas[name]
    fitting = [one for one in found if one.required <= one.schemas.keys()]
    if not fitting:
        raise Unenforceable("no arguments fit it")
    return fitting


def _alternatives(schema: Schema, root: Schema, depth: int) -> list[Parameters]:
    if depth > _MAX_DEPTH:
        raise Unenforceable("its references and choices are nested too deeply")
    if "object" not in schema.get("type", "object"):
        return []
    _check(schema)
    own = Parameters(required=set(schema.get("required") or ()))
    for name, value in (schema.get("properties") or {}).items():
        own.schemas[name] = [value]
    groups = [[own]]
    for options in _parts(schema, root):
        group: list[Parameters] = []
        for option in options:
            if option is None:
                raise Unenforceable("a '$ref' in it names nothing")
            if option is not False:
                group += _alternatives({} if option is True else option, root, depth + 1)
        groups.append(group)
    combinations = list(product(*groups))
    if len(combinations) > MAX_ALTERNATIVES:
        raise Unenforceable(f"it has more than {MAX_ALTERNATIVES} alternatives")
    return [_together(parts) for parts in combinations]


def _parts(schema: Schema, root: Schema) -> Iterator[list[Any]]:
    """Lists of schemas, of each of which one must hold."""
    if isinstance(reference := schema.get("$ref"), str):
        yield [target(reference, root)]
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list):
            yield options
    if isinstance(parts := schema.get("allOf"), list):
        for part in parts:
            yield [part]


def _together(parts: tuple[Parameters, ...]) -> Parameters:
    whole = Parameters()
    for part in parts:
        whole.required |= part.required
        for name, schemas in part.schemas.items():
            whole.schemas.setdefault(name, []).extend(schemas)
    return whole


def _check(schema: Schema) -> None:
    for keyword in _OF_THE_WHOLE:
        if keyword in schema:
            raise Unenforceable(f"it has the keyword {keyword!r}")
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    if least > len(schema.get("required") or ()):
        raise Unenforceable("it has the keyword 'minProperties'")
    if most is not None and most < len(schema.get("properties") or ()):
        raise Unenforceable("it has the keyword 'maxProperties'")


def parameter_schema(parameters: Schema | None, name: str) -> Any:
    """What a tool says of one parameter; None if nothing."""
    if not isinstance(parameters, Mapping):
        return None
    found: list[Any] = []
    waiting: list[tuple[Any, int]] = [(parameters, 0)]
    while waiting:
        schema, depth = waiting.pop()
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            continue
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and name in properties:
            if (one := resolved(properties[name], parameters)) not in found:
                found.append(one)
        elif len(found) < MAX_ALTERNATIVES:
            options = [part for parts in _parts(schema, parameters) for part in parts]
            waiting += [(option, depth + 1) for option in options[:MAX_ALTERNATIVES]]
    if not found:
        return None
    return found[0] if len(found) == 1 else {"anyOf": found}


def resolved(schema: Any, root: Schema) -> Any:
    """A schema that is no reference itself, and still finds what those within it name."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            break
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        named = target(schema["$ref"], root)
        if not isinstance(named, Mapping) or rest.keys() & named.keys() - {"description", "title"}:
            break  # both say something of the value
        schema = {**named, **rest}
    if not isinstance(schema, Mapping):
        return schema
    shared = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {**schema, **shared}


def target(reference: str, root: Schema) -> Any:
    """What a reference within the schema names; None where that isn't there."""
    part: Any = root if reference.startswith("#") else None
    for word in reference.removeprefix("#").split("/")[1:]:
        word = word.replace("~1", "/").replace("~0", "~")
        part = part.get(word) if isinstance(part, Mapping) else None
    return part
