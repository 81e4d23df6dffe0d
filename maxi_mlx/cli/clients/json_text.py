"""Changes JSON where it has to be changed, and leaves every other character: comments, order,
indentation. Reads what editors allow: comments and a comma after the last item.

A machine: text in, text out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxi_mlx.cli.clients.merging import find, holds_tables, same

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/)?(?=\r?\n)")
_DECODER = json.JSONDecoder()
INDENT = "  "


class BrokenJson(ValueError):
    """The message says what is wrong, and in which line."""


@dataclass(slots=True)
class Node:
    """A value and where it stands. ``after_last`` is where another item would go;
    ``needs_comma`` says that the last item has none behind it, and ``comma_at`` where it goes."""

    start: int
    end: int
    value: Any
    members: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    after_last: int = 0
    comma_at: int = 0
    needs_comma: bool = False
    first_key: int = 0


def read(text: str) -> Node:
    start = _skip(text, 0)
    try:
        node = _value(text, start)
    except RecursionError:
        raise _broken("too deep to be settings", text, start) from None
    end = _skip(text, node.end)
    if end != len(text):
        raise _broken("something after its end", text, end)
    return node


def edited(text: str, new: Mapping[str, Any], *, identity: str | None) -> str:
    """``text`` with these settings merged into it. They must not conflict with what is there."""
    root = read(text)
    unit = _indent_at(text, root.first_key) or INDENT
    edits: list[tuple[int, int, str]] = []
    _edit_object(_Edit(text, unit, identity, edits), root, new, depth=1)
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    return text


@dataclass(frozen=True, slots=True)
class _Edit:
    """What all steps of one change share. ``edits`` are (start, end, what to put there)."""

    text: str
    unit: str
    identity: str | None
    edits: list[tuple[int, int, str]]


def _edit_object(edit: _Edit, node: Node, new: Mapping[str, Any], *, depth: int) -> None:
    indent = _indent_at(edit.text, node.first_key) if node.members else None
    indent = indent if indent is not None else edit.unit * depth
    added = []
    for key, value in new.items():
        old = node.members.get(key)
        if old is None:
            written = _written(value, edit.unit, indent, is_flat=_is_flat(edit.text, node))
            added.append(f"{json.dumps(key, ensure_ascii=False)}: {written}")
        elif isinstance(value, Mapping):
            _edit_object(edit, old, value, depth=depth + 1)
        elif edit.identity is not None and old.items and holds_tables(value):
            _edit_array(edit, old, value, depth=depth + 1)
        elif not same(old.value, value):
            edit.edits.append((old.start, old.end, _written(value, edit.unit, indent)))
    _add(edit, node, added, indent=indent, num_before=len(node.members))


def _edit_array(edit: _Edit, node: Node, new: Sequence[Mapping[str, Any]], *, depth: int) -> None:
    assert edit.identity is not None
    indent = _indent_at(edit.text, node.items[0].start)
    indent = indent if indent is not None else edit.unit * depth
    added = []
    for item in new:
        index = find(node.value, item, identity=edit.identity)
        if index is not None:
            _edit_object(edit, node.items[index], item, depth=depth + 1)
        else:
            is_flat = _is_flat(edit.text, node)
            added.append(_written(item, edit.unit, indent, is_flat=is_flat))
    _add(edit, node, added, indent=indent, num_before=len(node.items))


def _add(edit: _Edit, node: Node, added: list[str], *, indent: str, num_before: int) -> None:
    """Puts new items behind the last one, each on a line where the others have lines."""
    if not added:
        return
    is_flat = _is_flat(edit.text, node) and num_before > 0
    between = ", " if is_flat else f",\n{indent}"
    if num_before == 0:
        closing = _indent_of_line(edit.text, node.start)
        body = f"\n{indent}" + between.join(added) + f"\n{closing}"
        edit.edits.append((node.start + 1, node.start + 1, body))
        return
    text = (" " if is_flat else f"\n{indent}") + between.join(added)
    if node.needs_comma and node.comma_at == node.after_last:
        text = "," + text
    elif node.needs_comma:  # a comment stands between
        edit.edits.append((node.comma_at, node.comma_at, ","))
    edit.edits.append((node.after_last, node.after_last, text))


def _written(value: Any, unit: str, indent: str, *, is_flat: bool = False) -> str:
    if is_flat:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")


def _is_flat(text: str, node: Node) -> bool:
    """Whether what is there stands in one line."""
    return node.end - node.start > 2 and "\n" not in text[node.start : node.end]


def _indent_at(text: str, place: int) -> str | None:
    """What stands before ``place`` in its line, where that is only white space."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    return before if place and not before.strip() and "\n" in text[:place] else None


def _indent_of_line(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _value(text: str, start: int) -> Node:
    opening = text[start : start + 1]
    if opening == "{":
        return _object(text, start)
    if opening == "[":
        return _array(text, start)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _broken(error.msg[:1].lower() + error.msg[1:], text, error.pos) from None
    return Node(start, end, value)


def _object(text: str, start: int) -> Node:
    node = Node(start, start, {})
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        if text[place : place + 1] != '"':
            raise _broken("a name in quotes is missing", text, place)
        key = _value(text, place)
        colon = _skip(text, key.end)
        if text[colon : colon + 1] != ":":
            raise _broken("a colon is missing", text, colon)
        child = _value(text, _skip(text, colon + 1))
        node.first_key = node.first_key or place
        node.members[key.value] = child
        node.value[key.value] = child.value
        place = _after(text, node, child, closing="}")
    node.end = place + 1
    return node


def _array(text: str, start: int) -> Node:
    node = Node(start, start, [])
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        child = _value(text, place)
        node.items.append(child)
        node.value.append(child.value)
        place = _after(text, node, child, closing="]")
    node.end = place + 1
    return node


def _after(text: str, node: Node, child: Node, *, closing: str) -> int:
    """Notes where another item would go; gives where the next one, or the closing, stands."""
    place = _skip(text, child.end)
    node.comma_at = child.end
    node.needs_comma = text[place : place + 1] != ","
    if not node.needs_comma:
        node.after_last = place + 1
        place = _skip(text, place + 1)
    elif text[place : place + 1] != closing:
        raise _broken("a comma is missing", text, place)
    else:
        node.after_last = child.end
    rest = _REST_OF_LINE.match(text, node.after_last)
    node.after_last = rest.end() if rest else node.after_last
    return place


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    assert match is not None
    return match.end()


def _broken(what: str, text: str, place: int) -> BrokenJson:
    return BrokenJson(f"{what}, line {text.count(chr(10), 0, place) + 1}")
