"""Reads tool calls out of an answer's text, as it comes, whatever syntax they are written in.

What is no call is text, handed on as it was; a call that breaks before it surely is one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from maxi_mlx.core.request import Tool
from maxi_mlx.text.pieces import Content, Piece
from maxi_mlx.text.source import Driver, Reading, Source, Tags
from maxi_mlx.text.tool_calls.call import Call, new_call_id
from maxi_mlx.text.tool_calls.json_copier import Malformed

_SPACE = " \t\r\n"
_BARE_STARTS = ("{", "[", "```")


class Syntax(Protocol):
    """What a reader needs to know of a syntax: the tags that begin calls, and how to read on from
    one (`read` raises `Malformed` if it was none). ``end_tags`` are dropped once there was a call.
    """

    @property
    def begin_tags(self) -> tuple[str, ...]: ...
    @property
    def end_tags(self) -> tuple[str, ...]: ...
    @property
    def reads_bare(self) -> bool: ...
    def read(self, reader: ToolCallReader, tag: str) -> Reading[None]: ...
    def read_bare(self, reader: ToolCallReader, start: str) -> Reading[None]: ...


class ToolCallReader:
    """One answer of a request that has ``tools``.

    With ``is_parallel`` false only the first call is told; later ones are read and dropped. White
    space beside a call is not told: templates put it back.
    """

    def __init__(
        self,
        syntax: Syntax,
        tools: Sequence[Tool],
        *,
        is_parallel: bool = True,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._syntax = syntax
        self._tools = {tool.name: tool for tool in tools}
        self._is_parallel = is_parallel
        self._new_id = new_id
        self._ids: set[str] = set()
        self.source = Source()
        self._driver = Driver(self.source, self._run())
        self._pieces: list[Piece] = []
        self._text = _Text(self._pieces)
        self._num_calls = 0
        self._open_call: Call | None = None
        self._hides_tag = False
        self._is_trying = False
        self.was_in_call = False

    @property
    def num_calls(self) -> int:
        """Calls told so far; an answer with any of them ends for the reason ``tool_calls``."""
        return min(self._num_calls, 1) if not self._is_parallel else self._num_calls

    @property
    def num_held(self) -> int:
        """Characters taken that may still turn out to be text."""
        return self.source.num_unread

    def feed(self, text: str) -> list[Piece]:
        """Takes more of the answer's content; returns what it lets be told. ``was_in_call`` says
        whether the text was a call's, be it the last of it."""
        was_in_call = self._is_in_call
        self._driver.feed(text)
        self.was_in_call = was_in_call or self._is_in_call
        return self._taken()

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        """The answer has ended; returns what was held back. ``is_cut``: its writer was stopped."""
        self._driver.finish(is_cut=is_cut)
        self._text.finish()
        return self._taken()

    @property
    def _is_in_call(self) -> bool:
        return self._is_trying and self._open_call is not None and self._open_call.has_begun

    def _taken(self) -> list[Piece]:
        pieces = self._pieces[:]
        self._pieces.clear()
        return pieces

    # -- for syntaxes -------------------------------------------------------------------------

    def tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def begin_call(self, name: str = "", *, id: str = "", has_late_id: bool = False) -> Call:
        """A call to write into. It must be ended before the next begins."""
        self._open_call = Call(
            self._tell,
            index=self._num_calls,
            claim_id=self._claim_id,
            on_begin=self._call_began,
            on_end=self.source.record,
            name=name,
            id=id,
            has_late_id=has_late_id,
        )
        return self._open_call

    def _claim_id(self, id: str) -> str:
        """The id that a model wrote, if it did and not twice: clients tell calls by it."""
        if not id or id in self._ids:
            id = self._new_id()
        self._ids.add(id)
        return id

    def hide_tag(self) -> None:
        """What was read so far, the tag too, won't be given back as text, whatever follows."""
        self._hides_tag = True
        self.source.record()

    # -- the answer ---------------------------------------------------------------------------

    def _run(self) -> Reading[None]:
        syntax = self._syntax
        bare = _BARE_STARTS if syntax.reads_bare else ()
        tags = Tags((*syntax.begin_tags, *syntax.end_tags, *bare))
        while True:
            tag = yield from self.source.pass_until(tags, self._text.add)
            if not tag:
                return
            if tag in syntax.begin_tags:
                yield from self._try(tag, syntax.read)
            elif tag in syntax.end_tags:
                if not self._num_calls:
                    self._text.add(tag)
            elif self._text.is_line_start and (yield from self._may_be_bare(tag)):
                yield from self._try(tag, syntax.read_bare)
            else:
                self._text.add(tag)

    def _may_be_bare(self, start: str) -> Reading[bool]:
        """Whether what follows is worth a try: most brackets and fences are text."""
        _, character = yield from self.source.peek_past_space()
        if start == "{":
            return bool(character) and character in "\"'"
        starts = "{_" if start == "[" else "{["
        return character.isalpha() or (bool(character) and character in starts)

    def _try(self, tag: str, read: Callable[[ToolCallReader, str], Reading[None]]) -> Reading[None]:
        """Reads calls after ``tag``; hands on as text what is none."""
        num_before = self._num_calls
        self._open_call = None
        self._hides_tag = False
        self.source.record()
        self._is_trying = True
        try:
            yield from read(self, tag)
        except Malformed:
            text = self.source.recorded()
            is_none = self._num_calls == num_before and not self._hides_tag
            self._text.add(tag + text if is_none else text)
        self.source.forget()
        self._is_trying = False
        if self._open_call is not None and self._open_call.has_begun:
            self._open_call.end(is_whole=False)

    def _call_began(self) -> None:
        self._num_calls += 1
        self._text.call_began()
        self.source.forget()

    def _tell(self, piece: Piece) -> None:
        if not isinstance(piece, Content) and (self._is_parallel or self._num_calls == 1):
            self._pieces.append(piece)


class _Text:
    """The text around calls: drops the white space next to them."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._space: list[str] = []
        self._has_text = False
        self.is_after_call = False  # nothing but white space came since
        self.is_line_start = True  # nothing but blanks came in this line

    def add(self, text: str) -> None:
        line_at = text.rfind("\n")
        is_blank = not text[line_at + 1 :].strip(" \t")
        self.is_line_start = is_blank and (line_at >= 0 or self.is_line_start)
        body = text.rstrip(_SPACE)
        if body:
            told = "".join((*self._space, body))
            if self.is_after_call and not self._has_text:
                told = told.lstrip(_SPACE)
            self._pieces.append(Content(told))
            self._space.clear()
            self._has_text = True
            self.is_after_call = False
        if len(body) < len(text):
            self._space.append(text[len(body) :])

    def call_began(self) -> None:
        self._space.clear()
        self.is_after_call = True
        self.is_line_start = True

    def finish(self) -> None:
        if self._space and not self.is_after_call:
            self._pieces.append(Content("".join(self._space)))
        self._space.clear()
