"""Answers as each family of models writes them, whatever pieces they come in."""

from __future__ import annotations

import pytest

from maxi_mlx.text.pieces import CallDelta, CallEnd, CallStart, Content
from maxi_mlx.text.tool_calls import ToolSyntax, syntaxes
from tests.models.scripted import DIALOGUES
from tests.unit.text.tool_calls.reading import Called, Told, pieces_of, read, read_every_way

OSLO = '{"city": "Oslo"}'
K2 = "<|tool_call_begin|>functions."
ARGUMENTS = "<|tool_call_argument_begin|>"
DSML = "｜DSML｜"

CASES: dict[str, tuple[ToolSyntax, str, list[Told]]] = {
    "json": (
        syntaxes.JSON_TOOLS,
        f'<tool_call>\n{{"name": "get_weather", "arguments": {OSLO}}}\n</tool_call>',
        [Called("get_weather", OSLO, "new_0")],
    ),
    "json, text around and two calls": (
        syntaxes.JSON_TOOLS,
        f'Let me look.\n<tool_call>\n{{"name": "get_weather", "arguments": {OSLO}}}\n</tool_call>'
        '\nand\n<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>\nDone.\n',
        [
            "Let me look.",
            Called("get_weather", OSLO, "new_0"),
            "\nand",
            Called("get_time", "{}", "new_1"),
            "\nDone.\n",
        ],
    ),
    "json, two in one tag": (
        syntaxes.JSON_TOOLS,
        '<tool_call>[{"name": "get_time", "arguments": {}},\n{"name": "get_time"}]</tool_call>',
        [Called("get_time", "{}", "new_0"), Called("get_time", "{}", "new_1")],
    ),
    "json, arguments first": (
        syntaxes.JSON_TOOLS,
        f'<tool_call>{{"arguments": {OSLO}, "name": "get_weather"}}</tool_call>',
        [Called("get_weather", OSLO, "new_0")],
    ),
    "json, arguments as a string": (
        syntaxes.JSON_TOOLS,
        r'<tool_call>{"name": "f", "arguments": "{\"a\": \"x\\n\\\"\\u00e9\\ud83d\\ude00\"}"}'
        "</tool_call>",
        [Called("f", r'{"a": "x\n\"\u00e9\ud83d\ude00"}', "new_0")],
    ),
    "json, OpenAI's own form": (
        syntaxes.JSON_TOOLS,
        '<tool_call>{"id": "a1", "type": "function", "function": {"name": "f", "arguments": '
        '{"a": [1, {"b": null}]}}}</tool_call>',
        [Called("f", '{"a": [1, {"b": null}]}', "a1")],
    ),
    "bare": (
        syntaxes.JSON_TOOLS,
        f'{{"name": "get_weather", "arguments": {OSLO}}}',
        [Called("get_weather", OSLO, "new_0")],
    ),
    "bare, in a fence after text": (
        syntaxes.JSON_TOOLS,
        f'I call:\n```json\n{{\n  "name": "get_weather",\n  "arguments": {OSLO}\n}}\n```',
        ["I call:", Called("get_weather", OSLO, "new_0")],
    ),
    "bare, two": (
        syntaxes.JSON_TOOLS,
        f'{{"name": "get_weather", "arguments": {OSLO}}}\n'
        '{"name": "get_time", "arguments": {}}',
        [Called("get_weather", OSLO, "new_0"), Called("get_time", "{}", "new_1")],
    ),
    "bare, no tool's name": (
        syntaxes.JSON_TOOLS,
        '{"name": "Ada", "arguments": {"a": 1}}',
        ['{"name": "Ada", "arguments": {"a": 1}}'],
    ),
    "bare, no arguments": (
        syntaxes.JSON_TOOLS,
        '{"name": "get_time"} is an object',
        ['{"name": "get_time"} is an object'],
    ),
    "an answer in JSON": (
        syntaxes.JSON_TOOLS,
        '{"animal": "cat", "name": "get_time"}\n```python\n{"a": [1]}\n```\n',
        ['{"animal": "cat", "name": "get_time"}\n```python\n{"a": [1]}\n```\n'],
    ),
    "a tag in text": (
        syntaxes.JSON_TOOLS,
        "The tag <tool_call> starts a call, </tool_call> ends it. a < b, <tool",
        ["The tag <tool_call> starts a call, </tool_call> ends it. a < b, <tool"],
    ),
    "qwen3_coder": (
        syntaxes.QWEN3_CODER,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nNew\n<b>York</b>\n\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        [Called("get_weather", '{"city": "New\\n<b>York</b>\\n", "days": 3}', "new_0")],
    ),
    "qwen3_coder, tags left out": (
        syntaxes.QWEN3_CODER,
        "Now:\n<function=get_weather>\n<parameter=city>\nOslo\n<parameter=days>\n3\n</function>\n"
        "</tool_call>",
        ["Now:", Called("get_weather", '{"city": "Oslo", "days": 3}', "new_0")],
    ),
    "qwen3_coder, types": (
        syntaxes.QWEN3_CODER,
        "<tool_call><function=get_time><parameter=place>\n{'a': True,}\n</parameter>\n"
        "<parameter=exact>\nTrue\n</parameter>\n<parameter=zones>\n[1, 2.5]\n</parameter>\n"
        "<parameter=other>\nnull\n</parameter>\n</function></tool_call>",
        [
            Called(
                "get_time",
                '{"place": {"a": true}, "exact": true, "zones": [1, 2.5], "other": null}',
                "new_0",
            )
        ],
    ),
    "glm": (
        syntaxes.GLM47,
        "ok\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>42</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>42</arg_value>\n</tool_call>"
        "<tool_call>get_time</tool_call>",
        [
            "ok",
            Called("get_weather", '{"city": "42", "days": 42}', "new_0"),
            Called("get_time", "{}", "new_1"),
        ],
    ),
    "glm, a name and JSON": (
        syntaxes.GLM47,
        f"<tool_call>get_weather {OSLO}</tool_call>",
        [Called("get_weather", OSLO, "new_0")],
    ),
    "kimi k2": (
        syntaxes.KIMI_K2,
        f"Hm.<|tool_calls_section_begin|>{K2}get_weather:0{ARGUMENTS}{OSLO}<|tool_call_end|>"
        f"{K2}get_time:1{ARGUMENTS}{{}}<|tool_call_end|><|tool_calls_section_end|>",
        [
            "Hm.",
            Called("get_weather", OSLO, "functions.get_weather:0"),
            Called("get_time", "{}", "functions.get_time:1"),
        ],
    ),
    "kimi k2, an id twice": (
        syntaxes.KIMI_K2,
        f"<|tool_calls_section_begin|>{K2}get_time:0{ARGUMENTS}{{}}<|tool_call_end|>"
        f"{K2}get_time:0{ARGUMENTS}{{}}<|tool_call_end|><|tool_calls_section_end|>",
        [
            Called("get_time", "{}", "functions.get_time:0"),
            Called("get_time", "{}", "new_0"),
        ],
    ),
    "kimi k3": (
        syntaxes.KIMI_K3,
        '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>1<|close|>argument<|sep|>'
        '<|open|>argument key="a&quot;b" type="number"<|sep|>1<|close|>argument<|sep|>'
        '<|close|>call<|sep|><|open|>call tool="f"<|sep|><|open|>json type="object"<|sep|>{"a":1}'
        "<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        [
            Called("get_weather", '{"city": "1", "a\\"b": 1}', "new_0"),
            Called("f", '{"a":1}', "new_1"),
        ],
    ),
    "mistral": (
        syntaxes.MISTRAL,
        f"Well[TOOL_CALLS]get_weather[ARGS]{OSLO}[TOOL_CALLS]get_time[CALL_ID]abcDEF123[ARGS]{{}}",
        ["Well", Called("get_weather", OSLO, "new_0"), Called("get_time", "{}", "abcDEF123")],
    ),
    "mistral, one tag for two": (
        syntaxes.MISTRAL,
        '[TOOL_CALLS]f[ARGS]{"a": 1}g[ARGS]{}',
        [Called("f", '{"a": 1}', "new_0"), Called("g", "{}", "new_1")],
    ),
    "mistral, a list": (
        syntaxes.MISTRAL_LIST,
        f'[TOOL_CALLS] [{{"name": "get_weather", "arguments": {OSLO}, "id": "abcDEF123"}}, '
        '{"name": "get_time", "arguments": {}}]',
        [Called("get_weather", OSLO, "abcDEF123"), Called("get_time", "{}", "new_0")],
    ),
    "pythonic": (
        syntaxes.PYTHONIC,
        "<|tool_call_start|>[get_weather(city='O\\'Brien', days=3), "
        "get_time(place={'a': (1, None)},"
        ' exact=false, zones=["x"])]<|tool_call_end|>Then.',
        [
            Called("get_weather", '{"city": "O\'Brien", "days": 3}', "new_0"),
            Called(
                "get_time", '{"place": {"a": [1, null]}, "exact": false, "zones": ["x"]}', "new_1"
            ),
            "Then.",
        ],
    ),
    "pythonic, JSON inside": (
        syntaxes.PYTHONIC,
        f'<|tool_call_start|>[{{"name": "f", "arguments": {OSLO}}}]<|tool_call_end|>',
        [Called("f", OSLO, "new_0")],
    ),
    "llama 4, bare": (
        syntaxes.LLAMA4,
        '[get_weather(city="Oslo"), get_time()]',
        [Called("get_weather", OSLO, "new_0"), Called("get_time", "{}", "new_1")],
    ),
    "llama 4, a list in text": (
        syntaxes.LLAMA4,
        "[a(x=1)]\n[get_time, 2]",
        ["[a(x=1)]\n[get_time, 2]"],
    ),
    "gemma 4": (
        syntaxes.GEMMA4,
        '<|tool_call>call:get_weather{city:<|"|>"O\\slo}<|"|>,days:3}<tool_call|>'
        '<|tool_call>call:get-time{a:{b:[<|"|>x<|"|>,true]}}<tool_call|>',
        [
            Called("get_weather", '{"city":"\\"O\\\\slo}","days":3}', "new_0"),
            Called("get-time", '{"a":{"b":["x",true]}}', "new_1"),
        ],
    ),
    "function gemma": (
        syntaxes.FUNCTION_GEMMA,
        "<start_function_call>call:f{city:<escape>a, b<escape>,n:1.5,u:New York}"
        "<end_function_call>",
        [Called("f", '{"city":"a, b","n":1.5,"u":"New York"}', "new_0")],
    ),
    "minimax": (
        syntaxes.MINIMAX_M2,
        '<minimax:tool_call>\n<invoke name="get_weather">\n'
        '<parameter name="city">Oslo</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="get_time">\n</invoke>\n'
        "</minimax:tool_call>",
        [
            Called("get_weather", '{"city": "Oslo", "days": 3}', "new_0"),
            Called("get_time", "{}", "new_1"),
        ],
    ),
    "minicpm5": (
        syntaxes.MINICPM5,
        '<function name="get_weather"><param name="city"><![CDATA[a<b\n&]]></param></function>\n'
        "<function name='get_time'></function>",
        [
            Called("get_weather", '{"city": "a<b\\n&"}', "new_0"),
            Called("get_time", "{}", "new_1"),
        ],
    ),
    "muse spark": (
        syntaxes.MUSE_SPARK,
        '<atem:function_calls>\n<atem:invoke name="get_weather">\n'
        '<atem:parameter name="city">Oslo</atem:parameter>\n</atem:invoke>\n</atem:function_calls>',
        [Called("get_weather", OSLO, "new_0")],
    ),
    "deepseek v3.2": (
        syntaxes.DEEPSEEK_V32,
        f'<{DSML}function_calls>\n<{DSML}invoke name="f">\n'
        f'<{DSML}parameter name="a" string="true">1</{DSML}parameter>\n'
        f'<{DSML}parameter name="b" string="false">[1]</{DSML}parameter>\n'
        f"</{DSML}invoke>\n</{DSML}function_calls>",
        [Called("f", '{"a": "1", "b": [1]}', "new_0")],
    ),
    "longcat": (
        syntaxes.LONGCAT,
        "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
        "<longcat_arg_value>Oslo</longcat_arg_value>\n</longcat_tool_call>",
        [Called("get_weather", OSLO, "new_0")],
    ),
    "llama 3": (
        syntaxes.LLAMA3,
        f'{{"name": "get_weather", "parameters": {OSLO}}}; '
        '{"name": "get_time", "parameters": {}}',
        [Called("get_weather", OSLO, "new_0"), Called("get_time", "{}", "new_1")],
    ),
    "llama 3, tagged": (
        syntaxes.LLAMA3,
        f'<|python_tag|>{{"name": "f", "parameters": {OSLO}}}<|eom_id|>',
        [Called("f", OSLO, "new_0")],
    ),
    "harmony": (
        syntaxes.HARMONY,
        "I will look.<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        f"{OSLO}<|call|>",
        ["I will look.", Called("get_weather", OSLO, "new_0")],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_family(case: tuple[ToolSyntax, str, list[Told]]) -> None:
    syntax, text, expected = case
    assert read_every_way(syntax, text) == expected


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_only_the_first_call_where_calls_may_not_be_parallel(
    case: tuple[ToolSyntax, str, list[Told]],
) -> None:
    syntax, text, expected = case
    first: list[Called] = [item for item in expected if isinstance(item, Called)][:1]
    told = read(syntax, text, is_parallel=False)
    assert [item for item in told if isinstance(item, Called)] == first
    texts = "".join(item for item in told if isinstance(item, str))
    assert texts == "".join(item for item in expected if isinstance(item, str))


@pytest.mark.parametrize("syntax", syntaxes.ALL, ids=lambda syntax: syntax.name)
def test_text_without_calls_stays_as_it_is(syntax: ToolSyntax) -> None:
    text = "  \n a < b, c = [1] {2} `x` ```py\n[x for x in y]\n``` | <| <x> </x>\n\n "
    assert "".join(item for item in read_every_way(syntax, text) if isinstance(item, str)) == text


def test_the_scripted_calls() -> None:
    for name, dialogue in DIALOGUES.items():
        if dialogue.tools and name != "broken call":
            text = dialogue.reply.rpartition("</think>")[2]
            told = read_every_way(syntaxes.JSON_TOOLS, text, tools=())
            assert "tool_call" not in "".join(item for item in told if isinstance(item, str))
    broken = DIALOGUES["broken call"].reply
    assert read_every_way(syntaxes.JSON_TOOLS, broken) == [broken]


def test_a_call_is_told_as_it_comes() -> None:
    text = f'Hi\n<tool_call>\n{{"name": "get_weather", "arguments": {OSLO}}}\n</tool_call>'
    assert pieces_of(syntaxes.JSON_TOOLS, text, size=4) == [
        Content("Hi"),
        CallStart(0, "new_0", "get_weather"),
        CallDelta(0, '{"city": '),
        CallDelta(0, '"'),
        CallDelta(0, "Os"),
        CallDelta(0, "lo"),
        CallDelta(0, '"'),
        CallDelta(0, "}"),
        CallEnd(0),
    ]


def test_a_text_parameter_is_told_as_it_comes() -> None:
    text = "<tool_call><function=get_weather><parameter=city>\nA\nB\n</parameter></function>"
    deltas = [
        piece.arguments
        for piece in pieces_of(syntaxes.QWEN3_CODER, text, size=1)
        if isinstance(piece, CallDelta)
    ]
    assert deltas == ['{"city": "', "A", "\\nB", '"', "}"]
