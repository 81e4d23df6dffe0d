"""Runs a reader over a text cut in any way, and joins what it tells."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from maxi_mlx.core.request import Tool
from maxi_mlx.text.pieces import CallDelta, CallEnd, CallStart, Content, Piece
from maxi_mlx.text.tool_calls import ToolCallReader, ToolSyntax

WEATHER: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city"],
}
CLOCK: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "place": {"type": "object"},
        "exact": {"type": "boolean"},
        "zones": {"type": "array", "items": {"type": "number"}},
    },
}
TOOLS = (
    Tool(name="get_weather", description="The weather", parameters=WEATHER),
    Tool(name="get_time", parameters=CLOCK),
)


@dataclass(frozen=True)
class Called:
    name: str
    arguments: str
    id: str = ""
    is_whole: bool = True


Told = str | Called


def pieces_of(
    syntax: ToolSyntax, text: str, *, size: int | None = None, is_cut: bool = False, **kwargs: Any
) -> list[Piece]:
    """What a reader tells of ``text`` that comes in pieces of ``size`` characters."""
    numbers = itertools.count()
    kwargs.setdefault("tools", TOOLS)
    reader = ToolCallReader(syntax, new_id=lambda: f"new_{next(numbers)}", **kwargs)
    size = size or max(len(text), 1)
    pieces: list[Piece] = []
    for start in range(0, len(text), size):
        pieces += reader.feed(text[start : start + size])
    pieces += reader.finish(is_cut=is_cut)
    assert reader.num_calls == sum(isinstance(piece, CallStart) for piece in pieces)
    return pieces


def joined(pieces: Iterable[Piece]) -> list[Told]:
    """Neighbouring text as one, every call as one; checks that calls don't interleave."""
    told: list[Told] = []
    is_open = False
    for piece in pieces:
        match piece:
            case Content(text):
                assert text
                assert not is_open
                if told and isinstance(told[-1], str):
                    told[-1] += text
                else:
                    told.append(text)
            case CallStart(index, id, name):
                assert not is_open
                assert id
                assert name
                assert index == sum(isinstance(item, Called) for item in told)
                told.append(Called(name, "", id))
                is_open = True
            case CallDelta(_, arguments):
                call = told[-1]
                assert is_open
                assert arguments
                assert isinstance(call, Called)
                told[-1] = Called(call.name, call.arguments + arguments, call.id)
            case CallEnd(_, is_whole):
                call = told[-1]
                assert is_open
                assert isinstance(call, Called)
                told[-1] = Called(call.name, call.arguments, call.id, is_whole)
                is_open = False
            case _:
                raise AssertionError(piece)
    assert not is_open
    return told


def read(syntax: ToolSyntax, text: str, **kwargs: Any) -> list[Told]:
    return joined(pieces_of(syntax, text, **kwargs))


def read_every_way(syntax: ToolSyntax, text: str, **kwargs: Any) -> list[Told]:
    """As `read`, checked to be the same whatever pieces the text comes in."""
    whole = read(syntax, text, **kwargs)
    for size in (1, 2, 3, 7):
        assert read(syntax, text, size=size, **kwargs) == whole, size
    for cut in range(1, len(text), max(1, len(text) // 40)):
        reader_pieces = _cut_at(syntax, text, cut, **kwargs)
        assert joined(reader_pieces) == whole, cut
    return whole


def _cut_at(syntax: ToolSyntax, text: str, cut: int, **kwargs: Any) -> list[Piece]:
    numbers = itertools.count()
    is_cut = kwargs.pop("is_cut", False)
    kwargs.setdefault("tools", TOOLS)
    reader = ToolCallReader(syntax, new_id=lambda: f"new_{next(numbers)}", **kwargs)
    first = reader.feed(text[:cut])
    return [*first, *reader.feed(text[cut:]), *reader.finish(is_cut=is_cut)]
