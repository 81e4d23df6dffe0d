"""JSON passes unchanged; what models get wrong in it is mended where it is plain what was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.text.source import Driver, Reading, Source
from maxi_mlx.text.tool_calls.json_copier import JsonCopier, Malformed
from maxi_mlx.text.tool_calls.values import mended_json, typed_json

MENDED = {
    "trailing comma": ('{"a": [1, 2, ], }', '{"a": [1, 2 ] }'),
    "missing comma": ('{"a": 1 "b": [1 2]}', '{"a": 1, "b": [1, 2]}'),
    "missing comma after a string": ('{"a": "x"\n "b": 1}', '{"a": "x",\n "b": 1}'),
    "single quotes": ("{'a': 'it\\'s \"x\"'}", '{"a": "it\'s \\"x\\""}'),
    "apostrophe in single quotes": ("{'a': 'it's'}", '{"a": "it\'s"}'),
    "unescaped quotes": ('{"a": "say "hi" now"}', '{"a": "say \\"hi\\" now"}'),
    "doubled quotes": ('{"a": "x""}', '{"a": "x\\""}'),
    "bare keys": ("{a: 1, b_c: 2}", '{"a": 1, "b_c": 2}'),
    "Python's words": ("[True, False, None]", "[true, false, null]"),
    "not a number": ("[NaN, Infinity, -Infinity, inf]", "[null, null, null, null]"),
    "odd numbers": ("[+1, 007, .5, 5., 1_000, -.5]", "[1, 7, 0.5, 5, 1000, -0.5]"),
    "huge numbers": ("[1e999, -1e-999, " + "9" * 400 + "]", None),
    "line breaks in strings": ('{"a": "x\ny\tz\r"}', '{"a": "x\\ny\\tz\\r"}'),
    "odd escapes": (
        r'["\d", "\x41", "\'", "\u12", "\x4"]',
        r"""["\\d", "A", "'", "\\u12", "\\x4"]""",
    ),
    "half a pair": (r'["\ud83d", "\ude00x", "\ud83d\n"]', r'["\ufffd", "\ufffdx", "\ufffd\n"]'),
    "a pair": (r'["\ud83d\ude00"]', None),
    "a half before a letter": (r'["\ud83d\u0041"]', r'["\ufffd\u0041"]'),
}
BROKEN = (
    "",
    "{",
    "[1",
    '{"a"',
    '{"a":',
    '{"a": }',
    "[,]",
    "[1,,2]",
    "{]",
    "[1}",
    "{1 2}",
    "x",
    '"a',
)


@pytest.mark.parametrize(("text", "expected"), MENDED.values(), ids=MENDED)
def test_mended(text: str, expected: str | None) -> None:
    mended = mended_json(text)
    assert mended == (text if expected is None else expected)
    json.loads(mended)


@pytest.mark.parametrize("text", BROKEN)
def test_broken(text: str) -> None:
    assert mended_json(text) is None


def copied(text: str, size: int) -> tuple[str, str, bool]:
    """What was written of ``text``, what would close it, and whether it broke."""
    source = Source()
    parts: list[str] = []
    copier = JsonCopier(source, parts.append)
    is_broken = False

    def run() -> Reading[None]:
        nonlocal is_broken
        try:
            yield from copier.value()
        except Malformed:
            is_broken = True

    driver = Driver(source, run())
    for start in range(0, len(text), size):
        driver.feed(text[start : start + size])
    driver.finish()
    return "".join(parts), copier.closing(), is_broken


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans(), st.sampled_from([1, 2, 3, 1000]))
def test_json_passes_unchanged(value: Any, indent: int | None, is_ascii: bool, size: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    if "Infinity" not in text:
        assert copied(text, size) == (text, "", False)


@pytest.mark.slow
@given(VALUES, st.sampled_from([1, 3, 1000]))
def test_python_literals_are_read(value: Any, size: int) -> None:
    text = repr(value)
    if "inf" not in text:
        written, closing, is_broken = copied(text, size)
        assert not is_broken
        assert not closing
        assert json.loads(written) == value


@pytest.mark.slow
@given(VALUES.filter(lambda value: isinstance(value, dict | list)), st.data())
def test_what_was_written_can_be_closed(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value).replace("Infinity", "1e999")
    length = data.draw(st.integers(0, len(text)))
    written, closing, is_broken = copied(text[:length], 3)
    assert is_broken == (length < len(text))
    if written and not _ends_in_string(written):
        json.loads(written + closing)


def _ends_in_string(written: str) -> bool:
    is_inside = is_escaped = False
    for character in written:
        if is_inside and is_escaped:
            is_escaped = False
        elif is_inside and character == "\\":
            is_escaped = True
        elif character == '"':
            is_inside = not is_inside
    return is_inside


TYPED = {
    "string": ("12", {"type": "string"}, '"12"'),
    "null for a string": ("null", {"type": "string"}, '"null"'),
    "null allowed": ("null", {"type": ["string", "null"]}, "null"),
    "None by anyOf": ("None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null"),
    "integer": (" 12 ", {"type": "integer"}, "12"),
    "integer written as a float": ("12.0", {"type": "integer"}, "12"),
    "number": ("1.50", {"type": "number"}, "1.50"),
    "huge": ("1e999", {"type": "number"}, "1e999"),
    "no number": ("NaN", {"type": "number"}, '"NaN"'),
    "infinite": ("inf", {"type": "integer"}, '"inf"'),
    "boolean": ("True", {"type": "boolean"}, "true"),
    "boolean by a word": ("off", {"type": "boolean"}, "false"),
    "object": ("{'a': 1}", {"type": "object"}, '{"a": 1}'),
    "broken object": ("{'a': ", {"type": "object"}, "\"{'a': \""),
    "array": ("[1, 2,]", {"type": "array"}, "[1, 2]"),
    "enum of numbers": ("2", {"enum": [1, 2]}, "2"),
    "const": ("x", {"const": "x"}, '"x"'),
    "no schema, number": ("12", None, "12"),
    "no schema, word": ("true", None, "true"),
    "no schema, text": ("12 o'clock", None, '"12 o\'clock"'),
    "no schema, object": ('{"a": 1}', None, '{"a": 1}'),
    "a schema that is none": ("x", {"type": 5, "anyOf": "?"}, '"x"'),
}


@pytest.mark.parametrize(("text", "schema", "expected"), TYPED.values(), ids=TYPED)
def test_values_by_schema(text: str, schema: Any, expected: str) -> None:
    assert typed_json(text, schema) == expected


def test_schemas_nested_for_ever() -> None:
    schema: dict[str, Any] = {}
    schema["anyOf"] = [schema, schema]
    assert typed_json("x", schema) == '"x"'
