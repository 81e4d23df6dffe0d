"""New settings into old ones, as plain data: everything else stays. Knows no file and no format."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any


class Conflict(Exception):
    """Something else stands where a table or a list is needed; the message names the place."""


def merge(
    old: MutableMapping[str, Any], new: Mapping[str, Any], *, identity: str | None, place: str = ""
) -> list[str]:
    """Changes ``old``; gives the names of the settings that were changed or added."""
    changed = []
    for key, value in new.items():
        here = f"{place}.{key}" if place else key
        if key not in old:
            old[key] = value
            changed.append(here)
        elif isinstance(value, Mapping):
            if not isinstance(old[key], MutableMapping):
                raise Conflict(f"{here} in it is no table")
            changed += merge(old[key], value, identity=identity, place=here)
        elif identity is not None and holds_tables(value):
            if not isinstance(old[key], MutableSequence):
                raise Conflict(f"{here} in it is no list")
            changed += merge_list(old[key], value, identity=identity, place=here)
        elif not same(old[key], value):
            old[key] = value
            changed.append(here)
    return changed


def merge_list(
    old: MutableSequence[Any], new: Sequence[Mapping[str, Any]], *, identity: str, place: str = ""
) -> list[str]:
    """The same for a list of tables, told apart by what each has under ``identity``."""
    changed = []
    for item in new:
        here = f"{place}[{item[identity]}]"
        index = find(old, item, identity=identity)
        if index is None:
            old.append(item)
            changed.append(here)
        else:
            changed += merge(old[index], item, identity=identity, place=here)
    return changed


def find(old: Sequence[Any], item: Mapping[str, Any], *, identity: str) -> int | None:
    """Where the item stands of which ``item`` is a new state."""
    for index, each in enumerate(old):
        if isinstance(each, MutableMapping) and each.get(identity) == item[identity]:
            return index
    return None


def same(left: Any, right: Any) -> bool:
    """Equal, also in type: ``1`` is not ``true``."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def holds_tables(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)
    )
