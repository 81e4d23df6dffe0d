"""The shapes of tool calls (`text/tool_calls/shape.py`) as nodes of a grammar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from maxi_mlx.core.grammar import FreeText, InOrder, Json, Node, OneOf, Repeated, Syntax
from maxi_mlx.engine.grammar.schema import check_schema
from maxi_mlx.text.tool_calls import shape as shapes


def required_calls(shape: shapes.Shape) -> Node:
    """An answer that is what the shape says, from its first character on."""
    return _in_order(shape)


def calls_in_text(shape: shapes.Shape, begin_tag: str, *, are_many: bool = True) -> Node | None:
    """An answer of free text in which every ``begin_tag`` begins what the shape says, once where
    not ``are_many``; None where calls can't be told by it, since they don't begin so."""
    rest = _without_beginning(_in_order(shape), begin_tag)
    if rest is None:
        return None
    most = None if are_many else 1
    return InOrder((Repeated(InOrder((FreeText(until=begin_tag), rest)), most=most), FreeText()))


def _in_order(shape: shapes.Shape) -> Node:
    parts = list(_flat([shape]))
    nodes: list[Node] = []
    while parts:
        part = parts.pop(0)
        if isinstance(part, shapes.RawText):
            end = parts.pop(0) if parts else None
            if not isinstance(end, shapes.Literal) or part.until not in end.text:
                raise ValueError(f"raw text must be followed by its end {part.until!r}")
            before, until, after = end.text.partition(part.until)
            nodes.append(_raw_text(part, before + until))
            parts.insert(0, shapes.Literal(after))
        elif not isinstance(part, shapes.Literal) or part.text:
            nodes.append(_node(part))
    return nodes[0] if len(nodes) == 1 else InOrder(tuple(nodes))


def _node(shape: shapes.Shape) -> Node:
    match shape:
        case shapes.Literal(text):
            return Syntax(text)
        case shapes.JsonBySchema(schema):
            return Json(json.dumps(schema, ensure_ascii=False))
        case shapes.AnyOf(choices):
            return OneOf(tuple(_in_order(choice) for choice in choices))
        case shapes.Repeat():
            return _repeated(shape)
        case shapes.Sequence() | shapes.RawText():
            return _in_order(shape)
        case _:
            assert_never(shape)


def _repeated(shape: shapes.Repeat) -> Node:
    part = _in_order(shape.part)
    if not shape.separator:
        return Repeated(part, shape.least, shape.most)
    most = None if shape.most is None else shape.most - 1
    more = Repeated(InOrder((Syntax(shape.separator), part)), max(shape.least - 1, 0), most)
    some = InOrder((part, more))
    return some if shape.least else Repeated(some, 0, 1)


def _raw_text(part: shapes.RawText, until: str) -> FreeText:
    schema = part.schema
    check_schema(json.dumps(schema, ensure_ascii=False))
    least, most = schema.get("minLength"), schema.get("maxLength")
    return FreeText(
        until=until,
        least=least if isinstance(least, int) else 0,
        most=most if isinstance(most, int) else None,
        pattern=schema.get("pattern"),
        format=schema.get("format"),
        without=part.until if until != part.until else None,
    )


def _flat(parts: Sequence[shapes.Shape]) -> list[shapes.Shape]:
    """Without sequences in sequences, so that raw text stands beside its end."""
    flat: list[shapes.Shape] = []
    for part in parts:
        flat += _flat(part.parts) if isinstance(part, shapes.Sequence) else [part]
    joined: list[shapes.Shape] = []
    for part in flat:
        if joined and isinstance(part, shapes.Literal) and isinstance(joined[-1], shapes.Literal):
            joined[-1] = shapes.Literal(joined[-1].text + part.text)
        else:
            joined.append(part)
    return joined


def _without_beginning(node: Node, begin: str) -> Node | None:
    """What is left of a node whose texts all begin so."""
    match node:
        case Syntax(text) if text.startswith(begin):
            return Syntax(text.removeprefix(begin))
        case InOrder((first, *rest)):
            start = _without_beginning(first, begin)
            return None if start is None else InOrder((start, *rest))
        case OneOf(options):
            starts = [_without_beginning(option, begin) for option in options]
            known = tuple(start for start in starts if start is not None)
            return OneOf(known) if len(known) == len(options) else None
        case Repeated(part, 1, None):
            start = _without_beginning(part, begin)
            return None if start is None else InOrder((start, Repeated(part)))
        case _:
            return None
