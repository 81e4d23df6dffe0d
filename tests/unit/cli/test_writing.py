"""Markdown at a terminal: what each construct looks like, and that cuts make no difference."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.cli.writing.markdown import MarkdownWriter

WIDTH = 24
MARKS = {"": "", "1": "b", "2": "d", "3": "i", "4": "u", "9": "s", "36": "c", "1;3": "bi"}


def shown(text: str, *, size: int = 10_000, width: int = WIDTH) -> str:
    writer = MarkdownWriter(lambda: width)
    pieces = [writer.feed(text[place : place + size]) for place in range(0, len(text), size)]
    return "".join(pieces) + writer.end()


def marked(text: str) -> str:
    """With ``<b>…</>`` for the codes."""
    return re.sub(
        r"\x1b\[([\d;]*)m", lambda found: f"<{MARKS.get(found[1].strip('0'), found[1])}>", text
    ).replace("<>", "</>")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("# Title #1\n", "<b>Title</><b> </><b>#1</>\n"),
        ("#hashtag\n", "#hashtag\n"),
        ("a **b** *c* _d_ ~~e~~ ***f***", "a <b>b</> <i>c</> <i>d</> <s>e</> <bi>f</>"),
        ("2 * 3 * 4, 2*3*4, a_b_c", "2 * 3 * 4, 2*3*4, a_b_c"),
        ("f(**kwargs) and ** x", "f(**kwargs) and ** x"),
        ("`a*b*` ``c`d`` `open", "<c>a*b*</> <c>c`d</> `open"),
        ("**a `**` b**", "<b>a</><b> </><1;36>**</><b> </><b>b</>"),
        ("\\*a\\* \\(x\\)", "*a* \\(x\\)"),
        ("[a](http://b) [x] [c]", "<u>a</><d> </><d>(http://b)</> [x] [c]"),
        ("- a\n  * b\n10. c\n", "• a\n  • b\n10. c\n"),
        ("- one two three four five\n", "• one two three four\n  five\n"),
        ("> one two three four five\n", "<d>│ </><i>one</><i> </><i>two</><i> </>"),
        ("---\n", "<d>" + "─" * WIDTH + "</>\n"),
        (
            "```py\nif a:\n\n    b = '``'\n```\nc",
            "<d>```py</>\n<c>if a:</>\n\n<c>    b = '``'</>\n",
        ),
        ("~~~\n```\n~~~\n", "<d>~~~</>\n<c>```</>\n<d>~~~</>\n"),
        ("```\nopen", "<d>```</>\n<c>open</>"),
        (
            "|a|b|\n|-|-|\n|`1`||\n\nx",
            "<b>a</><d> │ </><b>b</>\n<d>──┼──</>\n<c>1</><d> │ </>\n\nx",
        ),
        ("|a\nb", "|a\nb"),
        ("one two three four five six", "one two three four five\nsix"),
        ("今日はいい天気ですね。今日は", "今日はいい天気ですね。今\n日は"),
        ("a  \n\n\nb", "a\n\n\nb"),
    ],
)
def test_constructs(text: str, result: str) -> None:
    assert marked(shown(text)).startswith(result)
    assert not shown(text).count("\x1b[0m\x1b[0m")


ALPHABET = "`*_~\\[]()!#->|1. \n\tab:あé"


@given(st.text(ALPHABET, max_size=60), st.integers(1, 7))
def test_cuts_make_no_difference(text: str, size: int) -> None:
    assert shown(text, size=size) == shown(text)


@given(st.text("ab c\n", max_size=80))
def test_plain_words_stay_as_they_are(text: str) -> None:
    assert shown(text, width=1000).split() == text.split()


def test_long_marks_are_let_go() -> None:
    """What never closes is not held back for ever."""
    writer = MarkdownWriter(lambda: 80)
    words = "word " * 200
    assert len(writer.feed(f"**{words}")) > 500
