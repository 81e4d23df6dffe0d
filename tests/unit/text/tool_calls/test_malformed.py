"""Whatever a model writes, a reader goes on: text, or a call whose arguments are what they say."""

from __future__ import annotations

import gc
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.text.tool_calls import ToolCallReader, ToolSyntax, syntaxes
from tests.unit.text.tool_calls.reading import (
    TOOLS,
    Called,
    Told,
    joined,
    pieces_of,
    read_every_way,
)

BEGIN, END = "<tool_call>", "</tool_call>"

# Each is put between the tags of every syntax.
MALFORMED = (
    "",
    " ",
    "{}",
    "[]",
    "null",
    "5",
    '"x"',
    "{",
    "}",
    "[[[[",
    '{"name": "get_time"',
    '{"name": "get_time", "arguments"',
    '{"name": "get_time", "arguments":',
    '{"name": "get_time", "arguments": {',
    '{"name": "get_time", "arguments": {"a": ',
    '{"name": "get_time", "arguments": {"a": "x',
    '{"name": "get_time", "arguments": {"a": "x\\',
    '{"name": "get_time", "arguments": {"a": [1, {"b": 2}',
    '{"name": "get_time", "arguments": 5}',
    '{"name": "get_time", "arguments": "5"}',
    '{"name": "get_time", "arguments": ["a"]}',
    '{"name": 5, "arguments": {}}',
    '{"name": "", "arguments": {}}',
    '{"name": null}',
    '{"arguments": {"a": 1}}',
    '{"name": "a b", "arguments": {}}',
    '[{"name": "get_time", "arguments": {}}, 5]',
    '{"name": "get_time", "arguments": {"a": 1e999, "b": NaN, "c": inf}}',
    "<function=get_time",
    "<function=get_time>",
    "<function=get_time><parameter=zones>",
    "<function=get_time><parameter=zones>\nx\n</function>",
    "<function=get_weather><parameter=days>\ninf\n</parameter><parameter=days>\n1e999\n</parameter>",
    "<function=></function>",
    "<parameter=a>1</parameter>",
    "get_time(",
    "[get_time(a=)]",
    "[get_time(a=1",
    "[get_time(1)]",
    "[get_time(**x)]",
    "call:get_time{",
    "call:get_time{a:",
    "call:{}",
    "get_time<arg_key>a</arg_key>",
    "<arg_key>a</arg_key><arg_value>1</arg_value>",
    '<invoke name="get_time"><parameter name="a">1',
    '<invoke name="">',
    "functions.get_time:0<|tool_call_argument_begin|>{",
    "get_time[ARGS]{",
    '<|open|>call tool="get_time"<|sep|><|open|>argument key="a"<|sep|>',
    "\x00\x1f\ud7ff\U0010ffff",
)


def check(told: list[Told], *, is_cut: bool = False) -> None:
    """A whole call's arguments are a JSON object; one that is not whole can't be taken for it."""
    for call in (item for item in told if isinstance(item, Called)):
        if call.is_whole:
            assert isinstance(json.loads(call.arguments), dict), call
        else:
            assert is_cut or call.arguments
            with pytest.raises(ValueError):
                json.loads(call.arguments)


@pytest.mark.slow
@pytest.mark.parametrize("syntax", syntaxes.ALL, ids=lambda syntax: syntax.name)
def test_malformed_calls(syntax: ToolSyntax) -> None:
    begin = syntax.begin_tags[0]
    end = syntax.end_tags[0] if syntax.end_tags else ""
    for body in MALFORMED:
        for text in (f"{begin}{body}{end}", f"a {begin}{body}", body, f"{begin}{body}{end} after"):
            for is_cut in (False, True):
                whole = joined(pieces_of(syntax, text, is_cut=is_cut))
                check(whole, is_cut=is_cut)
                assert joined(pieces_of(syntax, text, size=2, is_cut=is_cut)) == whole
                if not any(isinstance(item, Called) for item in whole):
                    assert "".join(item for item in whole if isinstance(item, str)) == text


CALL = '{"name": "get_weather", "arguments": '
BROKEN: dict[str, tuple[str, list[Told]]] = {
    "an extra bracket": (
        f'{BEGIN}{CALL}{{"city": "x"}}}}}}}}{END}',
        [Called("get_weather", '{"city": "x"}', "new_0")],
    ),
    "a missing bracket": (
        f'{BEGIN}{CALL}{{"city": "x"}}{END} y',
        [Called("get_weather", '{"city": "x"}', "new_0"), "y"],
    ),
    "two missing brackets": (
        f'{BEGIN}{CALL}{{"city": "x"{END}',
        [Called("get_weather", '{"city": "x"}', "new_0")],
    ),
    "a value that never comes, after one that did": (
        f'{BEGIN}{CALL}{{"city": "x", "days": \n{END}',
        [Called("get_weather", '{"city": "x"}', "new_0")],
    ),
    "garbage after a value": (
        f'{BEGIN}{CALL}{{"city": "x", ?}}}}{END}y',
        [Called("get_weather", '{"city": "x"}', "new_0"), "?}}y"],
    ),
    "the end inside a string": (
        f'{BEGIN}{CALL}{{"city": "rm -rf /tmp',
        [Called("get_weather", '{"city": "rm -rf /tmp', "new_0", is_whole=False)],
    ),
    "a second call that breaks": (
        f'{BEGIN}{CALL}{{"city": "x"}}}}{END}\n{BEGIN}{{"name": ]{END}',
        [Called("get_weather", '{"city": "x"}', "new_0"), f'{BEGIN}{{"name": ]'],
    ),
    "a call after one that breaks": (
        f'{BEGIN}{{"nam{BEGIN}{CALL}{{}}}}{END}',
        [f'{BEGIN}{{"nam{BEGIN}{CALL}{{}}}}{END}'],
    ),
    "a call after a tag alone": (
        f"{BEGIN}\n{BEGIN}{CALL}{{}}}}{END}",
        [f"{BEGIN}", Called("get_weather", "{}", "new_0")],
    ),
    "no end": (
        f'{BEGIN}{CALL}{{"city": "x"}}}}',
        [Called("get_weather", '{"city": "x"}', "new_0")],
    ),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN.values(), ids=BROKEN)
def test_broken_calls(text: str, expected: list[Told]) -> None:
    assert read_every_way(syntaxes.JSON_TOOLS, text) == expected


def test_a_call_that_is_cut_is_not_closed() -> None:
    text = f'{BEGIN}{CALL}{{"city": "x", "days": 1'
    for cut, arguments in ((len(text), '{"city": "x"'), (len(text) - 6, '{"city": "x"')):
        told = read_every_way(syntaxes.JSON_TOOLS, text[:cut], is_cut=True)
        assert told == [Called("get_weather", arguments, "new_0", is_whole=False)]
    whole = f'{BEGIN}{CALL}{{"city": "x"}}'
    assert read_every_way(syntaxes.JSON_TOOLS, whole, is_cut=True) == [
        Called("get_weather", '{"city": "x"}', "new_0")
    ]


FRAGMENTS = st.lists(
    st.sampled_from(
        [tag for syntax in syntaxes.ALL for tag in syntax.tags]
        + ["{", "}", "[", "]", '"', "'", ",", ":", "\\", "\n", " ", "```json\n", "(", ")", "="]
        + ['"name": "get_time"', '"arguments": {', '"a": 1', "get_time", "city", "é", "\\u00e9"]
    ),
    max_size=25,
).map("".join)


@given(FRAGMENTS, st.sampled_from(syntaxes.ALL), st.sampled_from([1, 2, 3]), st.booleans())
def test_any_mixture_of_tags(text: str, syntax: ToolSyntax, size: int, is_cut: bool) -> None:
    whole = joined(pieces_of(syntax, text, is_cut=is_cut))
    check(whole, is_cut=is_cut)
    assert joined(pieces_of(syntax, text, size=size, is_cut=is_cut)) == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "<tool_call>",
        '<tool_call>{"name": "',
        "\n{",
        '\n{"name": "get_time", ',
        "\n```json\n{",
        "<tool_cal",
        "<function=get_time><parameter=a>",
        '<tool_call>{"name": "f", "arguments": {"a": "\n',
    ],
)
def test_linear_time(pattern: str) -> None:
    def seconds(num_characters: int) -> float:
        text = pattern * (num_characters // len(pattern))
        reader = ToolCallReader(syntaxes.QWEN3_CODER, TOOLS)
        start_s = time.process_time()
        for start in range(0, len(text), 1000):
            reader.feed(text[start : start + 1000])
        reader.finish()
        return time.process_time() - start_s

    # A full collection takes longer the more a process holds, which is no work of the reader's.
    gc.disable()
    try:
        seconds(10_000)
        # The best of three, since a busy machine only ever adds to what it takes.
        small = max(min(seconds(50_000) for _ in range(3)), 0.01)
        large = min(seconds(400_000) for _ in range(3))
    finally:
        gc.enable()
    # 8 times the text: 8 times the time where it is linear, 64 times where it is quadratic.
    assert large < 20 * small
