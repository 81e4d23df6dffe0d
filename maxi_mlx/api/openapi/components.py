"""The wire's types as JSON schemas, by msgspec. Types of several APIs have one name in places, so
that each API's names begin with its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from maxi_mlx.api.openai.fields import Field

Schema = dict[str, Any]


class Components:
    """The schemas of ``types`` and of all that they have inside."""

    def __init__(self, types: Iterable[type]) -> None:
        self.schemas: dict[str, Schema] = {}
        self._references: dict[type, Schema] = {}
        groups: dict[str, list[type]] = {}
        for each in dict.fromkeys(types):
            groups.setdefault(_group(each), []).append(each)
        for group, members in groups.items():
            references, found = msgspec.json.schema_components(
                members, ref_template=f"#/components/schemas/{group}.{{name}}"
            )
            self._references |= dict(zip(members, references, strict=True))
            self.schemas |= {f"{group}.{name}": schema for name, schema in found.items()}

    def any_of(self, types: Sequence[type]) -> Schema:
        references = [self._references[each] for each in types]
        return references[0] if len(references) == 1 else {"anyOf": references}

    def describe(self, type: type, fields: Mapping[str, Field]) -> None:
        """Says of each of a body's fields what becomes of it, of those too that nobody reads."""
        name = str(self._references[type]["$ref"]).rpartition("/")[2]
        properties = self.schemas[name]["properties"]
        for field_name, field in fields.items():
            if field_name in properties or field.treatment == "ignored":
                properties.setdefault(field_name, {})["description"] = words(field)


def words(field: Field) -> str:
    return field.note if field.treatment == "honoured" else f"({field.treatment}) {field.note}"


def _group(type: type) -> str:
    """``openai`` for ``maxi_mlx.api.openai.schema``, ``server`` for what is not of an API."""
    _, floor, *rest = type.__module__.split(".")
    return rest[0] if floor == "api" else floor
