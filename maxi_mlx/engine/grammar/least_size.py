"""How long the JSON of a schema is at the least, roughly and in bytes: what one token can add to
the text that an answer needs to close, and whether there is an end at all. Guesses from above where
it can't be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxi_mlx.engine.grammar import formats

_MAX_DEPTH = 40
_MAX_STEPS = 20_000
LARGE = 100_000  # all that is longer counts as so long
ENDLESS = 1 << 60


class LeastSize:
    """Of the parts of one schema; ``root`` is where its references point."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._num_steps = 0
        self._known: dict[int, int] = {}
        self._gave_up = False

    @property
    def is_endless(self) -> bool:
        """Whether what the schema describes surely holds itself, and so is never whole."""
        return self.of(self._root) >= ENDLESS and not self._gave_up

    def of(self, schema: Any) -> int:
        """In bytes; `LARGE` where it can't be told, `ENDLESS` where there is no end."""
        while True:
            num_known = len(self._known)
            size = self._of(schema, 0)
            if size < ENDLESS:
                return size
            # A way round to itself may have hidden another, which is found with what is known now.
            self._known = {key: value for key, value in self._known.items() if value < ENDLESS}
            if len(self._known) == num_known:
                return size

    def _of(self, schema: Any, depth: int) -> int:
        if not isinstance(schema, Mapping):
            return 1
        if id(schema) in self._known:
            return self._known[id(schema)]
        self._num_steps += 1
        if depth > _MAX_DEPTH or self._num_steps > _MAX_STEPS:
            self._gave_up = True
            return LARGE
        self._known[id(schema)] = ENDLESS  # while it is looked at: a way round to itself
        size = self._sized(schema, depth + 1)
        self._known[id(schema)] = size = ENDLESS if size >= ENDLESS else min(size, LARGE)
        return size

    def _sized(self, schema: Mapping[str, Any], depth: int) -> int:
        if "const" in schema:
            return len(str(schema["const"]).encode(errors="replace")) + 4
        if isinstance(options := schema.get("enum"), list) and options:
            return min(len(str(option).encode(errors="replace")) for option in options) + 4
        size = self._by_type(schema, depth)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(keyword), list) and options:
                size += min(self._of(option, depth) for option in options)
        if isinstance(parts := schema.get("allOf"), list):
            size += sum(self._of(part, depth) for part in parts)
        if isinstance(name := schema.get("$ref"), str):
            size += self._of(self._named(name), depth)
        return size

    def _by_type(self, schema: Mapping[str, Any], depth: int) -> int:
        """What keywords say of one type counts only where there is no shorter one."""
        size = 2
        if isinstance(least := schema.get("minLength"), int):
            size += min(least, LARGE)
        if isinstance(name := schema.get("format"), str):
            size += len(formats.EXAMPLES.get(name, ""))
        if isinstance(pattern := schema.get("pattern"), str):
            size += len(pattern)
        for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            size = max(size, len(str(schema.get(keyword, ""))))
        kind = schema.get("type")
        if kind in ("array", ["array"]):
            size += self._items(schema, depth)
        if kind in ("object", ["object"]):
            size += self._members(schema, depth)
        return size

    def _items(self, schema: Mapping[str, Any], depth: int) -> int:
        least = schema.get("minItems")
        if not isinstance(least, int) or least <= 0:
            return 0
        items = schema.get("prefixItems")
        firsts = items[:least] if isinstance(items, list) else []
        num_others = min(least, LARGE) - len(firsts)
        size = sum(self._of(item, depth) + 1 for item in firsts)
        if num_others > 0:
            size += num_others * (self._of(schema.get("items"), depth) + 1)
        return size

    def _members(self, schema: Mapping[str, Any], depth: int) -> int:
        properties = schema.get("properties")
        size = 0
        for key in schema.get("required") or ():
            inner = properties.get(key) if isinstance(properties, Mapping) else None
            size += len(str(key).encode(errors="replace")) + 4 + self._of(inner, depth)
        return size

    def _named(self, reference: str) -> Any:
        part: Any = self._root
        for name in reference.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            part = part.get(name) if isinstance(part, Mapping) else None
        return part
