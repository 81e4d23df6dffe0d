"""What an answer's text is made of once thoughts and tool calls are told apart. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of a thought, without its tags; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. Calls of an answer are numbered from 0; one ends before the next."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a call's arguments. All of them, joined, are the text of one JSON object."""

    index: int
    arguments: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call ended. Where it is not ``is_whole``, the answer ended inside one of its values, and
    the arguments are left unfinished: a value cut short must not be taken for a meant one."""

    index: int
    is_whole: bool = True


Piece = Content | Reasoning | CallStart | CallDelta | CallEnd
