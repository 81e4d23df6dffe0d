"""Random JSON schemas of the kinds that people send: what pydantic and zod write, in the main."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_WORDS = ("name", "age", "city", "kind", "über uns", "x-y", "items", "a", 'b"c', "日本", "value")
_PATTERNS = (
    r"^[A-Z]{2}-\d{3}$",
    r"^(foo|bar)+$",
    r"^[a-z]+@[a-z]+\.(com|org)$",
    r"^\d{4}-\d{2}$",
    r"[0-9]x",
)
_FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email")


def random_schema(chance: random.Random) -> Schema:
    """An object or an array, sometimes with definitions that call themselves."""
    maker = _Maker(chance)
    if chance.random() < 0.25:
        maker.names = ["Node", "Leaf"]
    root = maker.object(3) if chance.random() < 0.8 else maker.array(3)
    if maker.names:
        root["$defs"] = {"Node": maker.node(), "Leaf": maker.leaf()}
    return root


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.names: list[str] = []

    def any(self, depth: int) -> Schema:
        makers: list[Callable[[], Schema]] = [
            self.leaf, self.leaf, self.number, self.string, self.enum,
        ]  # fmt: skip
        if depth:
            makers += [
                lambda: self.object(depth - 1),
                lambda: self.array(depth - 1),
                lambda: self.any_of(depth - 1),
                lambda: self.nullable(depth - 1),
            ]
        if self.names:
            makers.append(lambda: {"$ref": f"#/$defs/{self._chance.choice(self.names)}"})
        return self._chance.choice(makers)()

    def leaf(self) -> Schema:
        return self._chance.choice(
            [
                {"type": "string"},
                {"type": "integer"},
                {"type": "number"},
                {"type": "boolean"},
                {"type": "null"},
                {"const": self._chance.choice(_WORDS)},
                {"type": "string", "title": "A title", "description": "Words.", "default": "x"},
            ]
        )

    def number(self) -> Schema:
        kind = self._chance.choice(["integer", "number"])
        low = self._chance.randint(-50, 2000)
        schema: Schema = {"type": kind}
        if self._chance.random() < 0.7:
            schema[self._chance.choice(["minimum", "exclusiveMinimum"])] = low
        if self._chance.random() < 0.7:
            schema[self._chance.choice(["maximum", "exclusiveMaximum"])] = low + 12
        if kind == "integer" and self._chance.random() < 0.3:
            schema["multipleOf"] = self._chance.choice([2, 5])
        return schema

    def string(self) -> Schema:
        schema: Schema = {"type": "string"}
        match self._chance.randrange(4):
            case 0:
                schema["minLength"] = self._chance.randint(0, 6)
                schema["maxLength"] = schema["minLength"] + self._chance.randint(0, 20)
            case 1:
                schema["pattern"] = self._chance.choice(_PATTERNS)
            case 2:
                schema["format"] = self._chance.choice(_FORMATS)
        return schema

    def enum(self) -> Schema:
        options: list[Any] = self._chance.sample(_WORDS, self._chance.randint(1, 4))
        if self._chance.random() < 0.3:
            options += [None, 3, True]
        return {"enum": options}

    def object(self, depth: int) -> Schema:
        names = self._chance.sample(_WORDS, self._chance.randint(0, 5))
        schema: Schema = {
            "type": "object",
            "properties": {name: self.any(depth) for name in names},
            "required": [name for name in names if self._chance.random() < 0.6],
        }
        match self._chance.randrange(4):
            case 0:
                schema["additionalProperties"] = self.leaf()
            case 1 | 2:
                schema["additionalProperties"] = False
        return schema

    def array(self, depth: int) -> Schema:
        schema: Schema = {"type": "array", "items": self.any(depth)}
        if self._chance.random() < 0.5:
            schema["minItems"] = self._chance.randint(0, 3)
            schema["maxItems"] = schema["minItems"] + self._chance.randint(0, 3)
        elif self._chance.random() < 0.2:
            schema = {
                "type": "array",
                "prefixItems": [self.any(depth), self.any(depth)],
                "minItems": 2,
                "items": False,
            }
        return schema

    def any_of(self, depth: int) -> Schema:
        return {"anyOf": [self.any(depth) for _ in range(self._chance.randint(1, 3))]}

    def nullable(self, depth: int) -> Schema:
        return {"anyOf": [self.any(depth), {"type": "null"}], "default": None}

    def node(self) -> Schema:
        """A tree."""
        return {
            "type": "object",
            "properties": {
                "value": self.leaf(),
                "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["value", "next"],
            "additionalProperties": False,
        }
