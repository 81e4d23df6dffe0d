"""Stop strings: cut exactly before them, whatever pieces the text comes in."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.text.stop_strings import StopStrings


def run(pieces: list[str], stops: list[str]) -> tuple[str, str | None, list[str]]:
    """The whole text shown, the stop string met, and what each piece let be shown."""
    matcher = StopStrings(stops).matcher()
    shown = []
    for piece in pieces:
        shown.append(matcher.feed(piece))
        if matcher.matched is not None:
            return "".join(shown), matcher.matched, shown
    shown.append(matcher.flush())
    return "".join(shown), None, shown


@pytest.mark.parametrize(
    ("pieces", "stops", "text", "matched"),
    [
        pytest.param(["Hello"], [], "Hello", None, id="none"),
        pytest.param(["one STOP two"], ["STOP"], "one ", "STOP", id="inside one piece"),
        pytest.param(["one ST", "OP two"], ["STOP"], "one ", "STOP", id="across pieces"),
        pytest.param(["STOP"], ["STOP"], "", "STOP", id="at once"),
        pytest.param(["a S", "T", "O", "x"], ["STOP"], "a STOx", None, id="false alarm"),
        pytest.param(["a STO"], ["STOP"], "a STO", None, id="ends half way"),
        pytest.param(["aab", "aabaa", "c"], ["aabaac"], "aab", "aabaac", id="overlapping start"),
        pytest.param(["abcd"], ["abcd", "bc"], "a", "bc", id="the first completed wins"),
        pytest.param(["xabc"], ["bc", "abc"], "x", "abc", id="the longer of two at one place"),
        pytest.param(["日本", "語。"], ["語"], "日本", "語", id="not only ASCII"),
        pytest.param(["a\n", "\nb"], ["\n\n"], "a", "\n\n", id="blank line"),
    ],
)
def test_cuts_exactly_before(
    pieces: list[str], stops: list[str], text: str, matched: str | None
) -> None:
    assert run(pieces, stops)[:2] == (text, matched)


def test_holds_back_no_more_than_what_may_be_a_stop_string() -> None:
    matcher = StopStrings(["END"]).matcher()
    assert matcher.feed("xE") == "x"
    assert matcher.feed("N") == ""
    assert matcher.feed("Ex") == "ENEx"


def test_an_empty_stop_string_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings([""])


def test_nothing_may_follow_a_match() -> None:
    matcher = StopStrings(["a"]).matcher()
    matcher.feed("a")
    with pytest.raises(ValueError, match="after"):
        matcher.feed("b")


words = st.text(alphabet="abc", max_size=40)


@given(words, st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4), st.data())
def test_every_cut_of_a_text_gives_the_same(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edges = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert run(pieces, stops)[:2] == run([text], stops)[:2]


@given(words, st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4))
def test_agrees_with_a_plain_search(text: str, stops: list[str]) -> None:
    shown, matched, _ = run(list(text), stops)
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        assert (shown, matched) == (text, None)
        return
    end, _, stop = min(ends)
    assert (shown, matched) == (text[: end - len(stop)], stop)
