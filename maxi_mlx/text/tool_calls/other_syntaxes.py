"""Calls in Python's and Gemma's terms, and as a name before JSON."""

from __future__ import annotations

from maxi_mlx.text.source import SPACE, Reading
from maxi_mlx.text.tool_calls import call_shapes as shapes
from maxi_mlx.text.tool_calls.json_calls import read_bare_object, read_objects
from maxi_mlx.text.tool_calls.other_calls import (
    HARMONY_BEGIN,
    HARMONY_END,
    K2_ARGUMENTS,
    K2_CALL,
    K2_CALL_END,
    K2_END,
    MISTRAL_BEGIN,
    read_gemma_calls,
    read_harmony_call,
    read_k2_calls,
    read_mistral_calls,
    read_python_calls,
)
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.tool_calls.syntax import ToolSyntax

# -- Python's and Gemma's terms -------------------------------------------------------------------


def _read_bare_python(reader: ToolCallReader, start: str) -> Reading[None]:
    """``[f(a=1)]`` or an object, without tags."""
    source = reader.source
    if start == "[":
        yield from source.run(SPACE)
        if (yield from source.peek()) != "{":
            yield from read_python_calls(reader, end_tag="", is_bare=True, has_bracket=True)
            return
    yield from read_bare_object(reader, start)


def _python_syntax(name: str, begin: str, end: str) -> ToolSyntax:
    return ToolSyntax(
        name=name,
        begin_tags=(begin,),
        end_tags=(end,),
        reading=lambda reader, _: read_python_calls(reader, end_tag=end),
        call_shape=shapes.parameters_call(
            "", "(", ")", shapes.python_parameter, names=r"\w+", separator=", "
        ),
        group_begin=f"{begin}[",
        separator=", ",
        group_end=f"]{end}",
        bare_reading=_read_bare_python,
    )


PYTHONIC = _python_syntax("pythonic", "<|tool_call_start|>", "<|tool_call_end|>")
LLAMA4 = _python_syntax("llama4", "<|python_start|>", "<|python_end|>")


def _gemma_syntax(name: str, begin: str, end: str, quote: str) -> ToolSyntax:
    return ToolSyntax(
        name=name,
        begin_tags=(begin,),
        end_tags=(end,),
        other_tags=(quote,),
        reading=lambda reader, _: read_gemma_calls(reader, end_tag=end, quote=quote),
        call_shape=shapes.parameters_call(
            f"{begin}call:",
            "{",
            f"}}{end}",
            shapes.wrapped("", ":", "", shapes.quoted_value(quote)),
            names=r"[\w$.-]+",
            separator=",",
        ),
        bare_reading=None,
    )


GEMMA4 = _gemma_syntax("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_GEMMA = _gemma_syntax(
    "function_gemma", "<start_function_call>", "<end_function_call>", "<escape>"
)

# -- a name, then JSON ----------------------------------------------------------------------------

_K2_BEGIN = "<|tool_calls_section_begin|>"

KIMI_K2 = ToolSyntax(
    name="kimi_k2",
    begin_tags=(_K2_BEGIN, K2_CALL),
    end_tags=(K2_END, K2_CALL_END),
    other_tags=(K2_ARGUMENTS,),
    reading=lambda reader, tag: read_k2_calls(reader, is_inside=tag == K2_CALL),
    call_shape=shapes.json_call(f"{K2_CALL}functions.", f":0{K2_ARGUMENTS}", K2_CALL_END),
    group_begin=_K2_BEGIN,
    group_end=K2_END,
    bare_reading=None,
)

MISTRAL = ToolSyntax(
    name="mistral",
    begin_tags=(MISTRAL_BEGIN,),
    end_tags=(),
    other_tags=("[ARGS]", "[CALL_ID]"),
    reading=lambda reader, _: read_mistral_calls(reader),
    call_shape=shapes.json_call(MISTRAL_BEGIN, "[ARGS]", ""),
)

MISTRAL_LIST = ToolSyntax(
    name="mistral_list",
    begin_tags=(MISTRAL_BEGIN,),
    end_tags=(),
    reading=lambda reader, _: read_mistral_calls(reader),
    call_shape=shapes.json_call('{"name": "', '", "arguments": ', "}"),
    group_begin=f"{MISTRAL_BEGIN}[",
    separator=", ",
    group_end="]",
)

_PYTHON_TAG = "<|python_tag|>"

LLAMA3 = ToolSyntax(
    name="llama3",
    begin_tags=(_PYTHON_TAG,),
    end_tags=("<|eom_id|>",),
    reading=lambda reader, _: read_objects(reader, end_tag=""),
    call_shape=shapes.json_call('{"name": "', '", "parameters": ', "}"),
    separator="; ",
)

HARMONY = ToolSyntax(
    name="harmony",
    begin_tags=(HARMONY_BEGIN,),
    end_tags=(HARMONY_END,),
    other_tags=("<|message|>", "<|constrain|>"),
    reading=lambda reader, _: read_harmony_call(reader),
    call_shape=shapes.json_call(
        f"{HARMONY_BEGIN}functions.", " <|constrain|>json<|message|>", HARMONY_END
    ),
    bare_reading=None,
)
