"""Calls in Python's terms (LFM2, Llama 4), in Gemma's, and with a name before JSON (Kimi K2,
Mistral, harmony).

    [f(city="Paris")]     call:f{city:<|"|>Paris<|"|>}     functions.f:0<|…|>{"city": "Paris"}
"""

from __future__ import annotations

import re

from maxi_mlx.text.source import SPACE, Reading, Tags
from maxi_mlx.text.tool_calls.call import is_name
from maxi_mlx.text.tool_calls.json_calls import read_arguments, read_objects
from maxi_mlx.text.tool_calls.json_copier import PYTHON, Dialect, JsonCopier, Malformed
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.tool_calls.values import quoted

_PYTHON_NAME = re.compile(r"[\w.-]*")  # a tool's may have dashes
_WORD = re.compile(r"\w*")
_GEMMA_NAME = re.compile(r"[\w.-]*")
_MISTRAL_NAME = re.compile(r"[\w.-]*")
_MISTRAL_ID = re.compile(r"\w*")


def read_python_calls(
    reader: ToolCallReader, *, end_tag: str, is_bare: bool = False, has_bracket: bool = False
) -> Reading[None]:
    """Calls in a list; without an end tag they must name tools, since text may look like them."""
    source = reader.source
    yield from source.run(SPACE)
    if not has_bracket:
        has_bracket = yield from source.expect("[")
        yield from source.run(SPACE)
        if (yield from source.peek()) == "{":
            yield from read_objects(reader, end_tag=end_tag)
            return
    while True:
        yield from source.run(SPACE)
        name = yield from source.run(_PYTHON_NAME)
        if not (yield from source.expect("(")) or not is_name(name):
            raise Malformed
        if is_bare and reader.tool(name) is None:
            raise Malformed
        if not (yield from _python_arguments(reader, name, end_tag=end_tag)):
            break
        yield from source.run(SPACE)
        if not (yield from source.expect(",")):
            break
    if has_bracket:
        yield from source.run(SPACE)
        yield from source.expect("]")
    if end_tag:
        yield from source.run(SPACE)
        yield from source.expect(end_tag)


def _python_arguments(reader: ToolCallReader, name: str, *, end_tag: str) -> Reading[bool]:
    """Keyword arguments, from after the opening bracket; says whether they came to their end."""
    source = reader.source
    call = reader.begin_call(name)
    call.write("{")
    num_values = 0
    while True:
        yield from source.run(SPACE)
        if (yield from source.expect(")")):
            break
        if num_values and not (yield from source.expect(",")):
            break  # a bracket is missing
        yield from source.run(SPACE)
        if (yield from source.expect(")")):
            break
        key = yield from source.run(_WORD)
        yield from source.run(SPACE)
        if not key or not (yield from source.expect("=")):
            if call.has_begun:
                break
            raise Malformed
        lead = f"{', ' if num_values else ''}{quoted(key)}: "
        copier = JsonCopier(source, call.write, end_tag=end_tag, dialect=PYTHON, lead=lead)
        if not (yield from call.copy(copier, after="}")):
            return False
        num_values += 1
    call.write("}")
    call.end()
    return True


# -- Gemma ---------------------------------------------------------------------------------------


def read_gemma_calls(reader: ToolCallReader, *, end_tag: str, quote: str) -> Reading[None]:
    """``call:name{key:value}``, once or more, up to the end tag."""
    source = reader.source
    dialect = Dialect(raw_quote=quote, has_bare_text=True)
    num_calls = 0
    while True:
        yield from source.run(SPACE)
        if num_calls and not (yield from source.looks_at("call:")):
            break
        if not (yield from source.expect("call:")):
            raise Malformed
        name = yield from source.run(_GEMMA_NAME)
        yield from source.run(SPACE)
        if not is_name(name) or (yield from source.peek()) != "{":
            raise Malformed
        call = reader.begin_call(name)
        copier = JsonCopier(source, call.write, end_tag=end_tag, dialect=dialect)
        if (yield from call.copy(copier)):
            call.end()
        num_calls += 1
    yield from source.expect(end_tag)


# -- a name, then JSON ---------------------------------------------------------------------------

K2_CALL = "<|tool_call_begin|>"
K2_ARGUMENTS = "<|tool_call_argument_begin|>"
K2_CALL_END = "<|tool_call_end|>"
K2_END = "<|tool_calls_section_end|>"
_K2_ID = re.compile(r"[^<\s]*")
_K2_NAME = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def read_k2_calls(reader: ToolCallReader, *, is_inside: bool) -> Reading[None]:
    """Calls with ids of their own (``functions.f:0``), which hold the name."""
    source = reader.source
    num_calls = 0
    while True:
        yield from source.run(SPACE)
        if not is_inside and not (yield from source.expect(K2_CALL)):
            break
        is_inside = False
        yield from source.run(SPACE)
        id = yield from source.run(_K2_ID)
        yield from source.run(SPACE)
        match = _K2_NAME.fullmatch(id)
        if match is None or not is_name(match[1]) or not (yield from source.expect(K2_ARGUMENTS)):
            raise Malformed
        yield from source.run(SPACE)
        call = reader.begin_call(match[1], id=id if ":" in id else "")
        if (yield from read_arguments(source, call, end_tag=K2_CALL_END)):
            call.end()
        yield from source.run(SPACE)
        yield from source.expect(K2_CALL_END)
        num_calls += 1
    if not num_calls:
        raise Malformed
    yield from source.expect(K2_END)


MISTRAL_BEGIN = "[TOOL_CALLS]"
_MISTRAL_ARGUMENTS = "[ARGS]"
_MISTRAL_CALL_ID = "[CALL_ID]"


def read_mistral_calls(reader: ToolCallReader) -> Reading[None]:
    """A list of objects (the older form), or a name and its arguments."""
    source = reader.source
    yield from source.run(SPACE)
    if (yield from source.peek()) in ("[", "{"):
        yield from read_objects(reader, end_tag="", has_late_id=True)
        return
    yield from _mistral_call(reader)
    while True:
        yield from source.run(SPACE)
        character = yield from source.peek()
        if not (character.isalnum() or character == "_"):
            return
        yield from _mistral_call(reader)


def _mistral_call(reader: ToolCallReader) -> Reading[None]:
    source = reader.source
    name = yield from source.run(_MISTRAL_NAME)
    yield from source.run(SPACE)
    id = ""
    if (yield from source.expect(_MISTRAL_CALL_ID)):
        id = yield from source.run(_MISTRAL_ID)
        yield from source.run(SPACE)
    yield from source.expect(_MISTRAL_ARGUMENTS)
    yield from source.run(SPACE)
    if not is_name(name) or (yield from source.peek()) != "{":
        raise Malformed
    call = reader.begin_call(name, id=id)
    if (yield from read_arguments(source, call, end_tag=MISTRAL_BEGIN)):
        call.end()


HARMONY_BEGIN = "<|channel|>commentary to="
HARMONY_END = "<|call|>"
_MESSAGE = Tags(("<|message|>",))
_CALLED = re.compile(r"(?:functions\.)?([\w.-]+)")


def read_harmony_call(reader: ToolCallReader) -> Reading[None]:
    """A message to a function, from after ``to=``."""
    source = reader.source
    header: list[str] = []
    found = yield from source.pass_until(_MESSAGE, header.append)
    match = _CALLED.match("".join(header))
    if not found or match is None or not is_name(match[1]):
        raise Malformed
    reader.hide_tag()
    yield from source.run(SPACE)
    call = reader.begin_call(match[1])
    if (yield from read_arguments(source, call, end_tag=HARMONY_END)):
        call.end()
    yield from source.run(SPACE)
    yield from source.expect(HARMONY_END)
