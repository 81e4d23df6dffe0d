"""Splits an answer's text into thoughts and what is said, as it comes.

Sees tags as text: special tokens that are tags have to be made visible (`ReasoningFormat.tags`).
"""

from __future__ import annotations

import re
from collections import deque

from maxi_mlx.text.pieces import Content, Piece, Reasoning
from maxi_mlx.text.reasoning.formats import Channels, ReasoningFormat
from maxi_mlx.text.source import Driver, Reading, Source, Tags

_SPACE = " \t\r\n"
_CALLED = re.compile(r"[\w.-]+")


class ReasoningSplitter:
    """One answer. `feed` is called once a token, so that thoughts can be counted in tokens.

    White space around a thought and after it is dropped, as the templates that put it back expect.
    A tag in an odd place is dropped too, and what follows the last unclosed one is a thought.

    ``calls_begin`` are tags of tool calls, in which no tag counts until one of ``calls_end``; they
    also end a thought the model forgot to close, where they begin a line. With ``keeps_calls``,
    messages of channels that call a function are handed on as content, header and end and all, for
    a tool-call reader to find. ``thought_first``: a grammar allows a thought at the answer's start,
    in which nothing but its end is a tag; ``has_form``: and then a form, where nothing is one.
    """

    def __init__(
        self,
        format: ReasoningFormat,
        *,
        starts_open: bool = False,
        calls_begin: tuple[str, ...] = (),
        calls_end: tuple[str, ...] = (),
        keeps_calls: bool = False,
        thought_first: bool = False,
        has_form: bool = False,
    ) -> None:
        self._format = format
        self._keeps_calls = keeps_calls
        self._thought_first = thought_first
        self._has_form = has_form
        self._calls_begin = calls_begin
        self._calls_end = Tags(calls_end)
        self.in_thought = starts_open
        self.num_reasoning_tokens = 0
        self._source = Source()
        parser = self._tagged() if format.channels is None else self._messages(format.channels)
        self._driver = Driver(self._source, parser)
        self._pieces: list[Piece] = []
        self._gate = _Gate(self._pieces)
        self._num_fed = 0
        self._num_read = 0
        self._token_starts: deque[int] = deque()  # of tokens that are not sorted yet
        self._sorted: list[bool] = []

    @property
    def num_held(self) -> int:
        """Characters taken that are neither handed on nor dropped, since they may begin a tag."""
        return self._source.num_unread

    def feed(self, text: str, *, num_tokens: int = 1) -> list[Piece]:
        """Takes the next text; returns what it lets be told."""
        self._token_starts.extend([self._num_fed] * num_tokens)
        self._num_fed += len(text)
        self._driver.feed(text)
        return self._taken()

    def finish(self, *, is_cut: bool = False) -> list[Piece]:
        """The answer has ended; returns what was held back."""
        self._driver.finish(is_cut=is_cut)
        self._gate.finish()
        self._sort(len(self._token_starts), is_thought=self.in_thought)
        return self._taken()

    def take_sorted(self) -> list[bool]:
        """Of the tokens that were told apart since the last time, in their order: whether each is
        of a thought, or of its tags."""
        found, self._sorted = self._sorted, []
        return found

    def _taken(self) -> list[Piece]:
        pieces = self._pieces[:]
        self._pieces.clear()
        return pieces

    # -- one pair of tags ---------------------------------------------------------------------

    def _tagged(self) -> Reading[None]:
        if self._thought_first:
            yield from self._first_thought()
        if self._has_form:
            yield from self._source.pass_until(Tags(()), self._say)
            return
        format, calls = self._format, {f"\n{tag}": tag for tag in self._calls_begin}
        inside = Tags((format.begin, format.end, *format.dropped, *calls))
        outside = Tags((format.begin, format.end, *format.dropped, *self._calls_begin))
        while True:
            if self.in_thought:
                tag = yield from self._source.pass_until(inside, self._think)
            else:
                tag = yield from self._source.pass_until(outside, self._say)
            if not tag:
                return
            if tag in calls:
                self._count(1, is_thought=True)
                self.in_thought = False
                self._gate.end_thought()
                tag = calls[tag]
            if tag in self._calls_begin:
                yield from self._call(tag)
            else:
                self._turn(tag)

    def _turn(self, tag: str) -> None:
        """Into a thought, or out of it."""
        was_thought, is_begin = self.in_thought, tag == self._format.begin
        self._count(len(tag), is_thought=was_thought or is_begin)
        if is_begin:
            self.in_thought = True
            self._gate.begin_thought()
        elif tag == self._format.end:
            self.in_thought = False
            if was_thought or not self._gate.has_said:
                self._gate.end_thought()

    def _call(self, tag: str) -> Reading[None]:
        """A call may well speak of tags."""
        self._say(tag)
        end = yield from self._source.pass_until(self._calls_end, self._say)
        self._say(end)

    def _first_thought(self) -> Reading[None]:
        format, source = self._format, self._source
        if not self.in_thought and (yield from source.expect(format.begin)):
            self._turn(format.begin)
        if self.in_thought:
            tag = yield from source.pass_until(Tags((format.end,)), self._think)
            if tag:
                self._turn(tag)

    # -- messages with headers ----------------------------------------------------------------

    def _messages(self, channels: Channels) -> Reading[None]:
        starts = tuple(start for start in channels.header_starts if start.startswith("<"))
        ends = Tags((*channels.ends, *starts))
        tag = "" if self.in_thought else (yield from self._header_start(channels))
        while True:
            is_call = bool(tag) and (yield from self._header(channels, tag))
            write = self._think if self.in_thought else self._say
            is_form = self._has_form and not (self.in_thought or is_call)
            tag = yield from self._source.pass_until(Tags(()) if is_form else ends, write)
            if not tag:
                return
            self._count(len(tag), is_thought=self.in_thought)
            if self.in_thought:
                self._gate.end_thought()
            if is_call:
                self._gate.say("<|call|>")
            self.in_thought = False
            if tag in channels.ends:
                tag = yield from self._header_start(channels)

    def _header_start(self, channels: Channels) -> Reading[str]:
        """Reads what a header begins with, if one comes."""
        for start in channels.header_starts:
            if (yield from self._source.expect(start)):
                self._count(len(start), is_thought=False)
                return start
        return ""

    def _header(self, channels: Channels, start: str) -> Reading[bool]:
        """Reads the rest of a header and sets what its message is; says whether it is a call."""
        parts = ["" if start.startswith("<") else start]
        ends = Tags((channels.message, *channels.ends))
        tag = yield from self._source.pass_until(ends, parts.append)
        header = "".join(parts)
        is_call = bool(tag) and bool(channels.call_prefix) and channels.call_prefix in header
        is_thought = not is_call and any(word in header for word in channels.thoughts)
        self._count(len(header) - len(parts[0]) + len(tag), is_thought=is_thought)
        if tag != channels.message:
            # No header after all; what was told apart by its tag alone is not shown.
            self._gate.say(header if parts[0] else "")
            return False
        self.in_thought = is_thought
        if is_thought:
            self._gate.begin_thought()
        if not is_call or not self._keeps_calls:
            return False
        called = _CALLED.match(header.partition(channels.call_prefix)[2])
        name = called[0] if called else ""
        self._gate.say(f"<|channel|>commentary {channels.call_prefix}{name}{channels.message}")
        return True

    # -- handing on ---------------------------------------------------------------------------

    def _think(self, text: str) -> None:
        self._count(len(text), is_thought=True)
        self._gate.think(text)

    def _say(self, text: str) -> None:
        self._count(len(text), is_thought=False)
        self._gate.say(text)

    def _count(self, num_characters: int, *, is_thought: bool) -> None:
        """Sorts the tokens that begin among the next characters."""
        self._num_read += num_characters
        num_tokens = 0
        while num_tokens < len(self._token_starts) and (
            self._token_starts[num_tokens] < self._num_read
        ):
            num_tokens += 1
        self._sort(num_tokens, is_thought=is_thought)

    def _sort(self, num_tokens: int, *, is_thought: bool) -> None:
        for _ in range(num_tokens):
            self._token_starts.popleft()
        self._sorted += [is_thought] * num_tokens
        self.num_reasoning_tokens += num_tokens if is_thought else 0


class _Gate:
    """Drops the white space at a thought's edges, and joins several thoughts by a line break."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._space: list[str] = []  # held back: at the answer's start, or inside a thought
        self._drops_space = False
        self.has_said = False
        self._is_first = True  # no text of the present thought was told
        self._has_thought = False

    def begin_thought(self) -> None:
        self._space.clear()
        self._is_first = True

    def end_thought(self) -> None:
        self._space.clear()
        self._drops_space = True

    def think(self, text: str) -> None:
        if self._is_first:
            text = text.lstrip(_SPACE)
            if text and self._has_thought:
                text = "\n" + text
        body = text.rstrip(_SPACE)
        if body:
            self._pieces.append(Reasoning("".join((*self._space, body))))
            self._space.clear()
            self._is_first = False
            self._has_thought = True
        if len(body) < len(text):
            self._space.append(text[len(body) :])

    def say(self, text: str) -> None:
        if self._drops_space:
            text = text.lstrip(_SPACE)
            self._drops_space = not text
        elif not self.has_said and text and not text.strip(_SPACE):
            self._space.append(text)
            return
        if text:
            self._pieces.append(Content("".join((*self._space, text))))
            self._space.clear()
            self.has_said = True

    def finish(self) -> None:
        if self._space and self._is_first and not self._drops_space:
            self._pieces.append(Content("".join(self._space)))
        self._space.clear()
