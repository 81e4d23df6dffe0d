"""Calls written as JSON objects, with a tag around them or bare, and JSON arguments after a name.

<tool_call>{"name": "f", "arguments": {…}}</tool_call>     [TOOL_CALLS]f[ARGS]{…}
"""

from __future__ import annotations

import re

from maxi_mlx.text.source import SPACE, Driver, Reading, Source
from maxi_mlx.text.tool_calls.call import Call, is_name
from maxi_mlx.text.tool_calls.json_copier import (
    JsonCopier,
    Malformed,
    copy_string,
    read_string,
    unquoted,
)
from maxi_mlx.text.tool_calls.reader import ToolCallReader

_NAME_KEYS = frozenset({"name", "function", "tool", "tool_name", "function_name"})
_ARGUMENT_KEYS = frozenset({"arguments", "parameters", "args", "input"})
_ID_KEYS = frozenset({"id", "call_id", "tool_call_id"})
_KEY = re.compile(r"\w*")
_STRAY = re.compile(r"[}\])\s]*")
_SEPARATORS = re.compile(r"[,;\s]*")
_FARTHEST = 100  # characters between two calls
_FENCE_WORD = re.compile(r"[a-z_]*")


def read_objects(
    reader: ToolCallReader, *, end_tag: str, has_late_id: bool = False
) -> Reading[None]:
    """One call or several, in a list or one after the other, up to ``end_tag``."""
    source = reader.source
    yield from source.run(SPACE)
    yield from source.expect("[")
    while True:
        yield from source.run(SPACE)
        if not (yield from source.expect("{")):
            raise Malformed
        yield from read_object(reader, end_tag=end_tag, has_late_id=has_late_id)
        if not (yield from _goes_on(source, end_tag)):
            return


def _goes_on(source: Source, end_tag: str) -> Reading[bool]:
    """After a call: whether another object follows; reads the end tag, or brackets too many."""
    distance = 0
    while True:
        character = yield from source.peek(distance)
        if not character or character not in "}]), ;\t\r\n" or distance >= _FARTHEST:
            break
        distance += 1
    if character == "{":
        source.take(distance)
        return True
    if end_tag and (yield from source.looks_at(end_tag, distance)):
        source.take(distance + len(end_tag))
        return False
    yield from source.run(_STRAY)
    return False


def read_object(
    reader: ToolCallReader, *, end_tag: str, is_bare: bool = False, has_late_id: bool = False
) -> Reading[None]:
    """One call, from after its opening bracket. A bare one must begin with a word that calls have,
    and name a tool."""
    source = reader.source
    call = reader.begin_call(has_late_id=has_late_id)
    depth = 1
    while depth:
        yield from source.run(_SEPARATORS)
        if (yield from source.expect("}")):
            depth -= 1
            continue
        key = yield from _key(source)
        if key is None:
            is_sure = call.has_begun or (call.name and not is_bare)
            if is_sure and ((yield from _is_at_end(source, end_tag)) or call.has_begun):
                break
            raise Malformed
        if key == "function" and (yield from source.expect("{")):
            depth += 1
        elif key in _NAME_KEYS:
            yield from _name(reader, call, end_tag=end_tag, is_bare=is_bare)
        elif key in _ARGUMENT_KEYS and not call.has_arguments:
            if not (yield from read_arguments(source, call, end_tag=end_tag)):
                return
        elif key in _ID_KEYS and not call.has_begun:
            call.id = yield from _text_value(source, end_tag)
        elif is_bare and key != "type" and not call.has_begun:
            raise Malformed
        elif not (yield from _skip_value(source, call)):
            break
    if is_bare and not call.has_arguments:
        raise Malformed
    call.end()


def _key(source: Source) -> Reading[str | None]:
    """A key and its colon; None if that is not what comes."""
    character = yield from source.peek()
    if character and character in "\"'":
        source.take(1)
        parts: list[str] = []
        yield from copy_string(source, character, parts.append, is_key=True)
        key = unquoted("".join(parts))
    else:
        key = yield from source.run(_KEY)
    yield from source.run(SPACE)
    if not key or not (yield from source.expect(":")):
        return None
    yield from source.run(SPACE)
    return key


def _is_at_end(source: Source, end_tag: str) -> Reading[bool]:
    """Whether a call ends here, though a bracket is missing."""
    if end_tag and (yield from source.looks_at(end_tag)):
        return True
    return not (yield from source.peek()) and not source.is_cut


def _text_value(source: Source, end_tag: str) -> Reading[str]:
    """A string, or any other value's text."""
    character = yield from source.peek()
    if character and character in "\"'":
        source.take(1)
        return (yield from read_string(source, character, end_tag=end_tag))
    parts: list[str] = []
    yield from JsonCopier(source, parts.append).value()
    return "".join(parts)


def _name(reader: ToolCallReader, call: Call, *, end_tag: str, is_bare: bool) -> Reading[None]:
    character = yield from reader.source.peek()
    if not character or character not in "\"'":
        raise Malformed
    name = yield from _text_value(reader.source, end_tag)
    if call.has_begun:
        return
    name = name.removeprefix("functions.")
    if not is_name(name) or (is_bare and reader.tool(name) is None):
        raise Malformed
    call.named(name)


def _skip_value(source: Source, call: Call) -> Reading[bool]:
    try:
        yield from JsonCopier(source, len).value()
    except Malformed:
        if not call.has_begun:
            raise
        return False
    return True


def read_arguments(source: Source, call: Call, *, end_tag: str) -> Reading[bool]:
    """Reads an object, or the text of one in a string; says whether it came to its end."""
    character = yield from source.peek()
    if character == "{":
        return (yield from call.copy(JsonCopier(source, call.write, end_tag=end_tag)))
    if character and character in "\"'":
        source.take(1)
        return (yield from _arguments_in_string(source, call, character, end_tag=end_tag))
    if (yield from source.expect("null")) or (yield from source.expect("None")):
        call.write("{}")
        return True
    if (yield from source.expect("[")):
        yield from source.run(SPACE)
        if (yield from source.expect("]")):
            call.write("{}")
            return True
    raise Malformed


def _arguments_in_string(source: Source, call: Call, quote: str, *, end_tag: str) -> Reading[bool]:
    """Some templates render arguments as a string of JSON, and some models learn it so."""
    inner = _Inner(call)
    try:
        yield from copy_string(source, quote, inner.write, end_tag=end_tag)
    except Malformed:
        if not call.has_begun:
            raise
        inner.finish(is_cut=True)
        call.end(is_whole=False)
        return False
    return inner.finish()


class _Inner:
    """The text inside a string, read as it comes: by a parser of its own, since it is moved on by
    what the string brings, not by what the answer does."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._source = Source()
        self._driver = Driver(self._source, self._read())
        self._has_text = False
        self._has_opened = False
        self._is_whole = False

    def write(self, piece: str) -> None:
        """Takes a piece of the string as JSON writes it; its quotes come as pieces of their own."""
        if not self._has_opened:
            self._has_opened = True
        elif piece != '"':
            self._has_text = True
            self._driver.feed(unquoted(f'"{piece}"'))

    def finish(self, *, is_cut: bool = False) -> bool:
        """The string has ended; says whether it held an object."""
        if not self._has_text:
            self._call.write("{}")
            return True
        self._driver.finish(is_cut=is_cut)
        return self._is_whole

    def _read(self) -> Reading[None]:
        yield from self._source.run(SPACE)
        if (yield from self._source.peek()) != "{":
            raise Malformed
        self._is_whole = yield from self._call.copy(JsonCopier(self._source, self._call.write))


# -- bare calls, in a fence or not ---------------------------------------------------------------


def read_bare_object(reader: ToolCallReader, start: str) -> Reading[None]:
    """A call without its tags, as small models write it, maybe in a fence of backticks."""
    source = reader.source
    if start == "```":
        yield from source.run(_FENCE_WORD)
        yield from source.run(SPACE)
        yield from source.expect("[")
        yield from source.run(SPACE)
        if not (yield from source.expect("{")):
            raise Malformed
    elif start == "[":
        yield from source.run(SPACE)
        if not (yield from source.expect("{")):
            raise Malformed
    while True:
        yield from read_object(reader, end_tag="```" if start == "```" else "", is_bare=True)
        if not (yield from _goes_on(source, "```" if start == "```" else "")):
            return
        source.take(1)
