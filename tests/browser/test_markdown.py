"""Markdown, as the page draws it: the same however it comes, and at a steady price."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Tab, Tabs
from tests.browser.speeches import HOSTILE, RICH
from tests.clients.conftest import Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tab(browser: Browser, served: Served) -> Iterator[Tab]:
    """One for all: a text leaves nothing behind."""
    tab = Tabs(browser).new(served)
    tab.open()
    yield tab
    assert tab.complaints == []


# Gives the elements that a text becomes, in pieces that end at the given places.
DRAWN = """async ([text, ends]) => {
  const { MarkdownView } = await import("/page/markdown.js");
  const root = document.createElement("div");
  const view = new MarkdownView(root);
  for (const end of ends) view.show(text.slice(0, end), { isComing: true });
  view.show(text);
  root.querySelectorAll("button").forEach((button) => button.remove());
  return root.innerHTML;
}"""

# How long drawing takes, in milliseconds, of a text that comes by 30 characters.
TIMED = """async (text) => {
  const { MarkdownView } = await import("/page/markdown.js");
  const view = new MarkdownView(document.createElement("div"));
  const began = performance.now();
  for (let end = 30; end < text.length; end += 30) {
    view.show(text.slice(0, end), { isComing: true });
  }
  view.show(text);
  return performance.now() - began;
}"""

CASES = {
    "bold": ("a **b** c", "<p>a <strong>b</strong> c</p>"),
    "both": ("***a***", "<p><em><strong>a</strong></em></p>"),
    "nested": ("*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"),
    "no end": ("2 * 3 * 4 and **no end", "<p>2 * 3 * 4 and **no end</p>"),
    "in a word": ("snake_case_name a*b*c", "<p>snake_case_name a<em>b</em>c</p>"),
    "struck": ("~~a~~ ~b~", "<p><del>a</del> ~b~</p>"),
    "code": ("`a*b*` and ``c`d``", "<p><code>a*b*</code> and <code>c`d</code></p>"),
    "escaped": (r"\*a\* 1\. C:\dir", r"<p>*a* 1. C:\dir</p>"),
    "lines": ("a  \nb\nc", "<p>a<br>b<br>c</p>"),
    "lines of Windows": ("# a\r\n\r\nb\r\nc", "<h3>a</h3><p>b<br>c</p>"),
    "heading": ("## A #\n####### no", "<h4>A</h4><p>####### no</p>"),
    "rule": ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
    "list": ("- a\n- b\n\n1. c\n2) d", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"
             "<ol><li><p>c</p></li><li><p>d</p></li></ol>"),
    "list in text": ("a\n- b\nc", "<p>a</p><ul><li><p>b<br>c</p></li></ul>"),
    "number in text": ("born in\n1984. Then", "<p>born in<br>1984. Then</p>"),
    "list from five": ("5. a\n6. b", '<ol start="5"><li><p>a</p></li><li><p>b</p></li></ol>'),
    "list in list": ("1. a\n  - b\n2. c", "<ol><li><p>a</p><ul><li><p>b</p></li></ul></li>"
                     "<li><p>c</p></li></ol>"),
    "two paragraphs in an item": ("- a\n\n  b\n\nc", "<ul><li><p>a</p><p>b</p></li></ul><p>c</p>"),
    "quote": ("> a\n> - b\n\nc", "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote>"
              "<p>c</p>"),
    "address": ("see https://a.example/b_c. (https://d.example)",
                "<p>see <a>https://a.example/b_c</a>. (<a>https://d.example</a>)</p>"),
    "brackets": ("[1] a[0] [x](y) [](z", "<p>[1] a[0] [x](y) [](z</p>"),
}  # fmt: skip


def drawn(tab: Tab, text: str, ends: list[int]) -> str:
    return str(tab.page.evaluate(DRAWN, [text, ends]))


@pytest.mark.parametrize("name", CASES)
def test_a_text_becomes_elements(tab: Tab, name: str) -> None:
    text, expected = CASES[name]
    plain = 'href="[^"]*" target="_blank" rel="noopener noreferrer nofollow"'
    shown = tab.page.evaluate(
        f"async (args) => (await ({DRAWN})(args)).replaceAll(/ {plain}/g, '')", [text, []]
    )
    assert shown == expected


@pytest.mark.parametrize("text", [RICH, HOSTILE, *(text for text, _ in CASES.values())])
def test_it_is_the_same_however_it_comes(tab: Tab, text: str) -> None:
    whole = drawn(tab, text, [])
    for step in (1, 2, 3, 7, 50):
        assert drawn(tab, text, list(range(step, len(text), step))) == whole, step
    if len(text) < 500:
        for end in range(1, len(text)):
            assert drawn(tab, text, [end]) == whole, end


ANSWER = "A paragraph with **bold** and `code`.\n\n- an item\n- another\n\n```py\nx = 1\n```\n\n"
SHAPES = {
    "blocks": ANSWER,
    "one list": "- an item of a list with *some* words\n",
}


MAX_MS = 500
READ = """async (text) => {
  const { blocksOf } = await import("/page/blocks.js");
  const { inlineOf } = await import("/page/inline.js");
  const began = performance.now();
  inlineOf(text, true);
  blocksOf(text);
  return performance.now() - began;
}"""
NUM_TRIES = 5  # what else runs on the machine may be in the way of some


@pytest.mark.parametrize("shape", SHAPES)
def test_long_answers_cost_no_more_by_the_word(tab: Tab, shape: str) -> None:
    short, long = (SHAPES[shape] * (size // len(SHAPES[shape])) for size in (40_000, 160_000))
    times = [[tab.page.evaluate(TIMED, text) for text in (short, long)] for _ in range(NUM_TRIES)]
    best_short, best_long = map(min, zip(*times, strict=True))
    # Four times as long a text; where every word cost the whole, it would be sixteen times.
    assert best_long < 10 * best_short, times


@pytest.mark.parametrize(
    "piece",
    ["*", "**a ", "*a _b ", "[", "![", "](", "[a](", "`", "` ``", "~~a", "<", "https://", "\\",
     "> ", "- ", "|", "|-", "# ", "(", "[x](https://a b", "```\n", "1. ", "&", "_a"],
)  # fmt: skip
def test_no_text_takes_long(tab: Tab, piece: str) -> None:
    def took_ms(size: int) -> float:
        return float(tab.page.evaluate(READ, piece * (size // len(piece))))

    times: list[float] = []
    while len(times) < NUM_TRIES and min(times, default=MAX_MS) >= MAX_MS:
        times.append(took_ms(50_000))
    if min(times) >= MAX_MS:  # on a slow machine: of five times the text, by far not 25 times
        assert min(times) < 10 * MAX_MS, json.dumps(piece)
        assert min(times) < 8 * min(took_ms(10_000) for _ in range(NUM_TRIES)), json.dumps(piece)
