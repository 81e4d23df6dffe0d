"""Calls written as tags in tags, one for each parameter, in the spelling of several families.

<function=f><parameter=city>Paris</parameter></function>
<invoke name="f"><parameter name="city">Paris</parameter></invoke>
f<arg_key>city</arg_key><arg_value>Paris</arg_value>
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from maxi_mlx.text.source import SPACE, Reading, Source, Tags
from maxi_mlx.text.tool_calls.call import Call, is_name
from maxi_mlx.text.tool_calls.json_calls import read_arguments
from maxi_mlx.text.tool_calls.json_copier import JsonCopier, Malformed, escaped
from maxi_mlx.text.tool_calls.parameters import parameter_schema
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.tool_calls.values import is_text, kinds_of, quoted, typed_json

_HEADER = re.compile(r"[^<>\n]*")
_HEADER_NAME = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))(.*)""", re.DOTALL)
_SAYS_STRING = re.compile(r"""\b(?:string|type)\s*=\s*["'](true|false|string)["']""")
_CDATA = "<![CDATA["


@dataclass(frozen=True, slots=True)
class TagForm:
    """The tags of a family whose names stand inside the opening tags: ``<invoke name=``. With
    ``trims_lines`` a value has a line break on either side."""

    begin: str
    end: str
    call: str
    call_end: str
    value: str
    value_end: str
    trims_lines: bool = True


def read_tag_calls(reader: ToolCallReader, form: TagForm, *, is_inside: bool) -> Reading[None]:
    """One call or several. ``is_inside``: the first ``call`` tag was read already."""
    source = reader.source
    num_calls = 0
    while True:
        if not is_inside:
            yield from source.run(SPACE)
            if form.end and (yield from source.expect(form.end)):
                if not num_calls:
                    raise Malformed
                return
            if not (yield from source.expect(form.call)):
                if not num_calls:
                    raise Malformed
                return
        yield from _tag_call(reader, form)
        num_calls += 1
        is_inside = False
        if not form.begin:
            return


def _header(source: Source) -> Reading[tuple[str, str]]:
    """The rest of an opening tag: its name, and what else it says."""
    text = yield from source.run(_HEADER)
    match = _HEADER_NAME.match(text)
    if match is None or not (yield from source.expect(">")):
        raise Malformed
    return (match[1] or match[2] or match[3] or ""), match[4]


def _tag_call(reader: ToolCallReader, form: TagForm) -> Reading[None]:
    source = reader.source
    name, _ = yield from _header(source)
    if not is_name(name):
        raise Malformed
    call = reader.begin_call(name)
    parameters = _parameters(reader, name)
    call.write("{")
    num_values = 0
    is_next = False  # the next value's opening tag was read with the end of the last
    while True:
        if not is_next:
            yield from source.run(SPACE)
        if is_next or (yield from source.expect(form.value)):
            try:
                key, says = yield from _header(source)
            except Malformed:
                if not call.has_begun:
                    raise
                break
            lead = f"{', ' if num_values else ''}{quoted(key)}: "
            schema = _said_schema(says, parameter_schema(parameters, key))
            ended_by = yield from _tag_value(reader, form, call, lead=lead, schema=schema)
            num_values += 1
            if not ended_by:
                return
            is_next = ended_by.lstrip("\n") == form.value
            if ended_by.lstrip("\n") == form.call_end:
                break
        elif (
            (yield from source.expect(form.call_end))
            or call.has_begun
            or (form.end and (yield from source.looks_at(form.end)))
        ):
            break
        else:
            raise Malformed
    call.write("}")
    call.end()


def _parameters(reader: ToolCallReader, name: str) -> Any:
    tool = reader.tool(name)
    return tool.parameters if tool is not None else None


def _said_schema(says: str, schema: Any) -> Any:
    """A tag may say itself that its value is a string."""
    match = _SAYS_STRING.search(says)
    if match is None:
        return schema
    if match[1] == "false":
        return None if is_text(schema) else schema
    return {"type": "string"}


def _tag_value(
    reader: ToolCallReader, form: TagForm, call: Call, *, lead: str, schema: Any
) -> Reading[str]:
    """Reads a value and its closing tag; returns the tag, or nothing where the text ended in it."""
    source = reader.source
    end = form.value_end
    if form.trims_lines:
        yield from source.expect("\n")
        others = (f"\n{form.value}", f"\n{form.call_end}")
        tags = Tags((f"\n{end}", end, *others))
    else:
        tags = Tags((end,))
    if (yield from source.expect(_CDATA)):
        return (yield from _cdata(source, call, tags, lead=lead, schema=schema))
    return (yield from read_value(source, call, tags, lead=lead, schema=schema))


def _cdata(source: Source, call: Call, tags: Tags, *, lead: str, schema: Any) -> Reading[str]:
    found = yield from read_value(source, call, Tags(("]]>",)), lead=lead, schema=schema)
    if not found:
        return ""
    return (yield from source.pass_until(tags, len))


def read_value(source: Source, call: Call, tags: Tags, *, lead: str, schema: Any) -> Reading[str]:
    """Reads a value up to one of ``tags``, which is returned; a string is told as it comes.

    Where the text ends first, the call is ended unfinished, and nothing is returned.
    """
    if is_text(schema):
        call.write(lead + '"')
        tag = yield from source.pass_until(tags, lambda text: call.write(escaped(text)))
        if tag:
            call.write('"')
        else:
            call.end(is_whole=False)
        return tag
    parts: list[str] = []
    tag = yield from source.pass_until(tags, parts.append)
    if tag:
        call.write(lead + typed_json("".join(parts), schema))
    elif call.has_begun:
        call.end(is_whole=False)
    else:
        raise Malformed
    return tag


# -- keys and values side by side (GLM, Laguna, LongCat) -----------------------------------------

_PAIR_NAME = re.compile(r"[^\s<{]*")


@dataclass(frozen=True, slots=True)
class PairForm:
    """The tags of a family that writes keys and values side by side, after the name."""

    begin: str
    end: str
    key: str
    key_end: str
    value: str
    value_end: str


def read_pair_call(reader: ToolCallReader, form: PairForm) -> Reading[None]:
    """One call up to the end tag. Without arguments it must name a tool, since then nothing else
    tells it from text."""
    source = reader.source
    yield from source.run(SPACE)
    name = yield from source.run(_PAIR_NAME)
    if not is_name(name):
        raise Malformed
    yield from source.run(SPACE)
    call = reader.begin_call(name)
    parameters = _parameters(reader, name)
    if (yield from source.peek()) == "{":
        yield from read_arguments(source, call, end_tag=form.end)
    else:
        if not (yield from _pairs(source, call, form, parameters)):
            return
        if not call.has_begun:
            has_end = yield from source.looks_at(form.end)
            if reader.tool(name) is None or not (has_end or source.is_closed):
                raise Malformed
        call.write("}")
    call.end()
    yield from source.run(SPACE)
    yield from source.expect(form.end)


def _pairs(source: Source, call: Call, form: PairForm, parameters: Any) -> Reading[bool]:
    """The arguments, all but the last bracket; says whether they came to their end."""
    call.write("{")
    num_values = 0
    while (yield from source.expect(form.key)):
        parts: list[str] = []
        found = yield from source.pass_until(Tags((form.key_end,)), parts.append)
        key = "".join(parts).strip()
        yield from source.run(SPACE)
        if not found or not (yield from source.expect(form.value)):
            if call.has_begun:
                break
            raise Malformed
        lead = f"{', ' if num_values else ''}{quoted(key)}: "
        schema = parameter_schema(parameters, key)
        tags = Tags((form.value_end,))
        if not (yield from read_value(source, call, tags, lead=lead, schema=schema)):
            return False
        num_values += 1
        yield from source.run(SPACE)
    return True


# -- Kimi K3: every tag spelled out in special tokens --------------------------------------------

_SEPARATOR = "<|sep|>"
_ATTRIBUTE = re.compile(r'(\w+)\s*=\s*"([^"]*)"')
_K3_END = "<|close|>tools<|sep|>"


def _attributes(source: Source) -> Reading[dict[str, str]]:
    parts: list[str] = []
    if not (yield from source.pass_until(Tags((_SEPARATOR,)), parts.append)):
        raise Malformed
    pairs = _ATTRIBUTE.findall("".join(parts))
    return {key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in pairs}


def read_k3_calls(reader: ToolCallReader) -> Reading[None]:
    """The calls of one ``tools`` section."""
    source = reader.source
    num_calls = 0
    while True:
        yield from source.run(SPACE)
        if not (yield from source.expect("<|open|>call")):
            break
        name = (yield from _attributes(source)).get("tool", "")
        if not is_name(name):
            raise Malformed
        yield from _k3_call(reader, reader.begin_call(name))
        num_calls += 1
    if not num_calls:
        raise Malformed
    yield from source.expect(_K3_END)


def _k3_call(reader: ToolCallReader, call: Call) -> Reading[None]:
    source = reader.source
    yield from source.run(SPACE)
    if (yield from source.expect("<|open|>json")):
        yield from _attributes(source)
        yield from source.run(SPACE)
        yield from call.copy(JsonCopier(source, call.write, end_tag="<|close|>"))
        yield from source.run(SPACE)
        yield from source.expect("<|close|>json<|sep|>")
        yield from source.run(SPACE)
    else:
        call.write("{")
        parameters = _parameters(reader, call.name)
        num_values = 0
        while (yield from source.expect("<|open|>argument")):
            says = yield from _attributes(source)
            key = says.get("key", "")
            schema: Any = parameter_schema(parameters, key)
            # Of a tool that is known, its schema says more than a tag can, if not one type alone.
            if "type" in says and (schema is None or len(kinds_of(schema)) == 1):
                schema = {"type": says["type"]}
            lead = f"{', ' if num_values else ''}{quoted(key)}: "
            tags = Tags(("<|close|>argument<|sep|>",))
            if not (yield from read_value(source, call, tags, lead=lead, schema=schema)):
                return
            num_values += 1
            yield from source.run(SPACE)
        call.write("}")
    call.end()
    yield from source.expect("<|close|>call<|sep|>")
