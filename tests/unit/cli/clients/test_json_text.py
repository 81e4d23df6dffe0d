"""Settings put into JSON that people write by hand: what is there stays, to the character."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.cli.clients.json_text import BrokenJson, edited, read
from maxi_mlx.cli.clients.merging import Conflict, merge

ZED = """\
// Zed settings
//
{
  "theme": "One Dark", // at night
  /* fonts */ "buffer_font_size": 15,
  "agent": {
    "enabled": true
  },
}
"""


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        pytest.param("{}", {"a": 1}, '{\n  "a": 1\n}', id="empty"),
        pytest.param('{"a": 1}', {"b": {"c": 2}}, '{"a": 1, "b": {"c": 2}}', id="one-line"),
        pytest.param('{\n    "a": 1\n}\n', {"b": 2}, '{\n    "a": 1,\n    "b": 2\n}\n', id="lines"),
        pytest.param('{\n\t"a": 1,\n}', {"b": 2}, '{\n\t"a": 1,\n\t"b": 2\n}', id="last-comma"),
        pytest.param(
            '{\n  "a": 1 // one\n}', {"b": 2}, '{\n  "a": 1, // one\n  "b": 2\n}', id="comment"
        ),
        pytest.param('{"a": true}', {"a": 1}, '{"a": 1}', id="no-boolean"),
        pytest.param('{"a": 1, "b": 2}', {"a": 3}, '{"a": 3, "b": 2}', id="changed"),
        pytest.param(
            '{"m": [\n  {"name": "x", "n": 1}\n]}',
            {"m": [{"name": "x", "n": 2}, {"name": "y"}]},
            '{"m": [\n  {"name": "x", "n": 2},\n  {\n    "name": "y"\n  }\n]}',
            id="list-of-named",
        ),
        pytest.param('{"m": []}', {"m": [{"name": "y"}]}, None, id="empty-list"),
    ],
)
def test_what_is_there_stays(old: str, new: dict[str, Any], text: str | None) -> None:
    found = edited(old, new, identity="name")
    if text is not None:
        assert found == text
    merged = read(old).value
    merge(merged, new, identity="name")
    assert read(found).value == merged
    assert edited(found, new, identity="name") == found


def test_comments_and_trailing_commas() -> None:
    new = {"agent": {"default_model": {"provider": "p"}}, "language_models": {"x": {}}}
    text = edited(ZED, new, identity=None)
    assert read(text).value == {
        "theme": "One Dark",
        "buffer_font_size": 15,
        "agent": {"enabled": True, "default_model": {"provider": "p"}},
        "language_models": {"x": {}},
    }
    for kept in ("// Zed settings", "// at night", "/* fonts */ "):
        assert kept in text
    assert [line for line in ZED.splitlines() if line not in text.splitlines()] == [
        '    "enabled": true'  # which has got a comma
    ]


_keys = st.text(alphabet='ab"\\/é ', max_size=3)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(_keys, _values, max_size=4)


@given(_objects, _objects, st.sampled_from([None, 0, 1, 2, "\t"]), st.booleans())
def test_the_text_is_what_the_data_would_be(
    old: dict[str, Any], new: dict[str, Any], indent: int | str | None, has_comments: bool
) -> None:
    text = json.dumps(old, indent=indent, ensure_ascii=False)
    if has_comments and indent:
        # Behind every line; a string never holds a line break in JSON.
        text = "// first\n" + text.replace("\n", " /* here */ // and here\n") + "\n// last"
    merged = copy.deepcopy(old)
    try:
        changed = merge(merged, new, identity=None)
    except Conflict:
        return
    found = edited(text, new, identity=None)
    assert read(found).value == merged
    assert (found == text) == (not changed)
    assert edited(found, new, identity=None) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "a name in quotes is missing, line 1"),
        ('{\n"a" 1}', "a colon is missing, line 2"),
        ('{"a": 1 "b": 2}', "a comma is missing, line 1"),
        ('{"a": 1}}', "something after its end, line 1"),
        ("{a: 1}", "a name in quotes is missing, line 1"),
        ('{"a": }', "expecting value, line 1"),
        ('{"a": [1, }', "expecting value, line 1"),
        ('{"a": /* no end }', "expecting value, line 1"),
        ('{"a": "no end}', "unterminated string starting at, line 1"),
        ("[" * 100_000, "too deep to be settings, line 1"),
    ],
)
def test_broken(text: str, words: str) -> None:
    with pytest.raises(BrokenJson, match=f"^{words}$"):
        read(text)
