"""How long the JSON of a schema is at the least, roughly and in bytes: what one token can add to
the text that an answer needs to close. Guesses from above where it can't be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxi_mlx.engine.grammar.examples import FORMATS

_MAX_DEPTH = 40
_MAX_STEPS = 20_000
ENDLESS = 100_000


class LeastSize:
    """Of the parts of one schema; ``root`` is where its references point."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._num_steps = 0
        self._known: dict[int, int] = {}

    def of(self, schema: Any, depth: int = 0) -> int:
        """In bytes, `ENDLESS` where there is no end in sight."""
        if not isinstance(schema, Mapping):
            return 1
        if id(schema) in self._known:
            return self._known[id(schema)]
        self._num_steps += 1
        if depth > _MAX_DEPTH or self._num_steps > _MAX_STEPS:
            return ENDLESS
        self._known[id(schema)] = ENDLESS  # while it is looked at: a way round to itself
        size = min(self._sized(schema, depth + 1), ENDLESS)
        self._known[id(schema)] = size
        return size

    def _sized(self, schema: Mapping[str, Any], depth: int) -> int:
        if "const" in schema:
            return len(str(schema["const"]).encode(errors="replace")) + 4
        if isinstance(options := schema.get("enum"), list) and options:
            return min(len(str(option).encode(errors="replace")) for option in options) + 4
        size = self._by_type(schema, depth)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(keyword), list) and options:
                size += min(self.of(option, depth) for option in options)
        if isinstance(parts := schema.get("allOf"), list):
            size += sum(self.of(part, depth) for part in parts)
        if isinstance(name := schema.get("$ref"), str):
            size += self.of(self._named(name), depth)
        return size

    def _by_type(self, schema: Mapping[str, Any], depth: int) -> int:
        size = 2
        if isinstance(least := schema.get("minLength"), int):
            size += least
        if isinstance(name := schema.get("format"), str):
            size += len(FORMATS.get(name, ""))
        if isinstance(pattern := schema.get("pattern"), str):
            size += len(pattern)
        for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            size = max(size, len(str(schema.get(keyword, ""))))
        if isinstance(least := schema.get("minItems"), int) and least > 0:
            items = schema.get("prefixItems")
            firsts = items[:least] if isinstance(items, list) else []
            size += sum(self.of(item, depth) + 1 for item in firsts)
            size += (least - len(firsts)) * (self.of(schema.get("items"), depth) + 1)
        properties = schema.get("properties")
        for key in schema.get("required") or ():
            inner = properties.get(key) if isinstance(properties, Mapping) else None
            size += len(str(key).encode(errors="replace")) + 4 + self.of(inner, depth)
        return size

    def _named(self, reference: str) -> Any:
        part: Any = self._root
        for name in reference.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            part = part.get(name) if isinstance(part, Mapping) else None
        return part
