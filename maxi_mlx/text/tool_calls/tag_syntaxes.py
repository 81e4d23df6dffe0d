"""Calls between tags of their own: JSON, or a tag for each parameter."""

from __future__ import annotations

from functools import partial

from maxi_mlx.text.source import SPACE, Reading
from maxi_mlx.text.tool_calls import call_shapes as shapes
from maxi_mlx.text.tool_calls.json_calls import read_objects
from maxi_mlx.text.tool_calls.reader import ToolCallReader
from maxi_mlx.text.tool_calls.syntax import ToolSyntax
from maxi_mlx.text.tool_calls.xml_calls import (
    PairForm,
    TagForm,
    read_k3_calls,
    read_pair_call,
    read_tag_calls,
)

# -- the tag that three families share ------------------------------------------------------------

_BEGIN, _END = "<tool_call>", "</tool_call>"
_FUNCTION = TagForm(
    begin=_BEGIN,
    end=_END,
    call="<function=",
    call_end="</function>",
    value="<parameter=",
    value_end="</parameter>",
)
_GLM = PairForm(
    begin=_BEGIN,
    end=_END,
    key="<arg_key>",
    key_end="</arg_key>",
    value="<arg_value>",
    value_end="</arg_value>",
)


def _read_tool_call(reader: ToolCallReader, tag: str) -> Reading[None]:
    """Whatever stands between the tags: models that were tuned on each other's answers mix them."""
    if tag == _FUNCTION.call:
        yield from read_tag_calls(reader, _FUNCTION, is_inside=True)
        return
    yield from reader.source.run(SPACE)
    character = yield from reader.source.peek()
    if character and character in "[{":
        yield from read_objects(reader, end_tag=_END)
    elif character == "<":
        yield from read_tag_calls(reader, _FUNCTION, is_inside=False)
    else:
        yield from read_pair_call(reader, _GLM)


JSON_TOOLS = ToolSyntax(
    name="json_tools",
    begin_tags=(_BEGIN,),
    end_tags=(_END,),
    reading=_read_tool_call,
    call_shape=shapes.json_call(f'{_BEGIN}\n{{"name": "', '", "arguments": ', f"}}\n{_END}"),
    separator="\n",
)

QWEN3_CODER = ToolSyntax(
    name="qwen3_coder",
    begin_tags=(_BEGIN, _FUNCTION.call),
    end_tags=(_END,),
    reading=_read_tool_call,
    call_shape=shapes.parameters_call(
        f"{_BEGIN}\n<function=",
        ">\n",
        f"</function>\n{_END}",
        shapes.wrapped("<parameter=", ">\n", "\n</parameter>\n", shapes.raw_value("</parameter>")),
        names=shapes.BARE_NAMES,
    ),
    separator="\n",
)

GLM47 = ToolSyntax(
    name="glm47",
    begin_tags=(_BEGIN,),
    end_tags=(_END,),
    other_tags=(_GLM.key, _GLM.key_end, _GLM.value, _GLM.value_end),
    reading=_read_tool_call,
    call_shape=shapes.parameters_call(
        _BEGIN,
        "",
        _END,
        shapes.wrapped(
            "<arg_key>", "</arg_key><arg_value>", "</arg_value>", shapes.raw_value("</arg_value>")
        ),
        names=shapes.OWN_NAMES,
    ),
)

_LONGCAT = PairForm(
    begin="<longcat_tool_call>",
    end="</longcat_tool_call>",
    key="<longcat_arg_key>",
    key_end="</longcat_arg_key>",
    value="<longcat_arg_value>",
    value_end="</longcat_arg_value>",
)


def _read_longcat(reader: ToolCallReader, _: str) -> Reading[None]:
    yield from reader.source.run(SPACE)
    character = yield from reader.source.peek()
    if character and character in "[{":
        yield from read_objects(reader, end_tag=_LONGCAT.end)
    else:
        yield from read_pair_call(reader, _LONGCAT)


LONGCAT = ToolSyntax(
    name="longcat",
    begin_tags=(_LONGCAT.begin,),
    end_tags=(_LONGCAT.end,),
    other_tags=(_LONGCAT.key, _LONGCAT.key_end, _LONGCAT.value, _LONGCAT.value_end),
    reading=_read_longcat,
    call_shape=shapes.parameters_call(
        _LONGCAT.begin,
        "\n",
        _LONGCAT.end,
        shapes.wrapped(
            _LONGCAT.key,
            f"{_LONGCAT.key_end}\n{_LONGCAT.value}",
            f"{_LONGCAT.value_end}\n",
            shapes.raw_value(_LONGCAT.value_end),
        ),
        names=shapes.OWN_NAMES,
    ),
)

# -- tags in tags ---------------------------------------------------------------------------------


def _tag_reading(form: TagForm, reader: ToolCallReader, tag: str) -> Reading[None]:
    return read_tag_calls(reader, form, is_inside=tag == form.call)


def _tag_syntax(
    name: str, form: TagForm, call_shape: shapes.CallShape, *, line: str = "\n"
) -> ToolSyntax:
    has_group = bool(form.begin)
    return ToolSyntax(
        name=name,
        begin_tags=(form.begin or form.call,),
        end_tags=(form.end or form.call_end,),
        other_tags=(form.call, form.call_end, form.value, form.value_end),
        reading=partial(_tag_reading, form),
        call_shape=call_shape,
        group_begin=form.begin + line if has_group else "",
        separator=line,
        group_end=line + form.end if has_group else "",
        bare_reading=None,
    )


def _named_call(prefix: str, value_end: str) -> shapes.CallShape:
    value = shapes.raw_value(value_end)
    return shapes.parameters_call(
        f'<{prefix}invoke name="',
        '">\n',
        f"</{prefix}invoke>",
        shapes.wrapped(f'<{prefix}parameter name="', '">', f"{value_end}\n", value),
        names=shapes.QUOTED_NAMES,
    )


def _invoke_form(begin: str, end: str, prefix: str) -> TagForm:
    return TagForm(
        begin=begin,
        end=end,
        call=f"<{prefix}invoke name=",
        call_end=f"</{prefix}invoke>",
        value=f"<{prefix}parameter name=",
        value_end=f"</{prefix}parameter>",
    )


MINIMAX_M2 = _tag_syntax(
    "minimax_m2",
    _invoke_form("<minimax:tool_call>", "</minimax:tool_call>", ""),
    _named_call("", "</parameter>"),
)

MUSE_SPARK = _tag_syntax(
    "muse_spark",
    _invoke_form("<atem:function_calls>", "</atem:function_calls>", "atem:"),
    _named_call("atem:", "</atem:parameter>"),
)

_DSML = "｜DSML｜"

DEEPSEEK_V32 = _tag_syntax(
    "deepseek_v32",
    _invoke_form(f"<{_DSML}function_calls>", f"</{_DSML}function_calls>", _DSML),
    shapes.parameters_call(
        f'<{_DSML}invoke name="',
        '">\n',
        f"\n</{_DSML}invoke>",
        shapes.typed_parameter(
            lambda name, is_string: (
                f'<{_DSML}parameter name="{name}" string="{"true" if is_string else "false"}">'
            ),
            f"</{_DSML}parameter>",
        ),
        names=shapes.QUOTED_NAMES,
    ),
)

MINICPM5 = _tag_syntax(
    "minicpm5",
    TagForm(
        begin="",
        end="",
        call="<function name=",
        call_end="</function>",
        value="<param name=",
        value_end="</param>",
    ),
    shapes.parameters_call(
        '<function name="',
        '">',
        "</function>",
        shapes.wrapped('<param name="', '">', "</param>", shapes.raw_value("</param>")),
        names=shapes.QUOTED_NAMES,
    ),
)

KIMI_K3 = ToolSyntax(
    name="kimi_k3",
    begin_tags=("<|open|>tools<|sep|>",),
    end_tags=("<|close|>tools<|sep|>",),
    other_tags=("<|open|>", "<|close|>", "<|sep|>"),
    reading=lambda reader, _: read_k3_calls(reader),
    call_shape=shapes.parameters_call(
        '<|open|>call tool="',
        '"<|sep|>',
        "<|close|>call<|sep|>",
        shapes.xtml_parameter,
        names=shapes.OWN_NAMES,
    ),
    group_begin="<|open|>tools<|sep|>",
    group_end="<|close|>tools<|sep|>",
    bare_reading=None,
)
