"""Nothing that a model says can run, look like the page's own, or reach another server."""

from __future__ import annotations

import pytest
import requests
from playwright.sync_api import expect

from tests.browser.conftest import Tab
from tests.clients.conftest import Served

pytestmark = pytest.mark.slow

HARMLESS = {"A", "B", "BLOCKQUOTE", "BR", "BUTTON", "CODE", "DEL", "DIV", "EM", "H3", "H4", "H5"}
HARMLESS |= {"HR", "LI", "OL", "P", "PRE", "SPAN", "STRONG", "TABLE", "TBODY", "TD", "TH", "THEAD"}
HARMLESS |= {"TR", "UL", "use", "svg", "path"}


def test_hostile_output_is_text(tab: Tab) -> None:
    tab.ask("Attack the page")
    words = tab.answer()
    text = tab.page.locator(".answer .text")
    assert set(text.evaluate("e => [...e.querySelectorAll('*')].map(x => x.nodeName)")) <= HARMLESS
    assert "<script>window.attacked = 1</script>" in words
    attributes = text.evaluate(
        "e => [...e.querySelectorAll('*')].flatMap(x => [...x.attributes]).map(x => x.name)"
    )
    assert [name for name in attributes if name.startswith(("on", "style", "src"))] == []
    links = text.evaluate("e => [...e.querySelectorAll('a')].map(x => x.href)")
    assert links
    assert all(link.startswith("https://") for link in links)
    for link in text.locator("a").all():
        link.hover()
    tab.page.wait_for_timeout(200)
    assert tab.page.evaluate("window.attacked") is None
    origin = tab.url.rstrip("/")
    assert [each.url for each in tab.requests if not each.url.startswith(origin)] == []


def test_a_hostile_question_is_text_too(tab: Tab) -> None:
    asked = "<img src=x onerror='window.attacked = 1'>\n<b>bold</b>"
    tab.page.locator("#message").fill(asked)
    tab.page.keyboard.press("Enter")
    assert tab.page.locator(".bubble").inner_text() == asked
    assert "<img" in tab.page.locator(".conversation").inner_text()
    tab.answer()
    assert tab.page.evaluate("window.attacked") is None


def test_the_policy_holds_where_all_else_fails(tab: Tab) -> None:
    """Markup that came into the page after all does nothing."""
    for action in (
        "document.body.innerHTML += '<img src=x onerror=window.attacked=1>'",
        "document.body.setAttribute('onclick', 'window.attacked = 1')",
        "document.head.append(Object.assign(document.createElement('script'), {src: 'x'}))",
    ):
        refused = f"() => {{ try {{ {action} }} catch (error) {{ return error.name }} }}"
        assert tab.page.evaluate(refused) == "TypeError"
    tab.page.evaluate("new Image().src = 'https://evil.example/x'")
    tab.page.evaluate("fetch('https://evil.example/').catch(() => {})")
    tab.page.wait_for_timeout(300)
    assert tab.page.evaluate("window.attacked") is None
    assert any("Content Security Policy" in text for text in tab.complaints)
    tab.complaints.clear()


def test_another_page_can_not_frame_it(tab: Tab, served: Served) -> None:
    answer = requests.get(tab.url, headers={"Accept": "text/html"}, timeout=60)
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_links_open_elsewhere(tab: Tab) -> None:
    tab.ask("Show me everything")
    tab.answer()
    link = tab.page.locator(".answer .text a")
    expect(link).to_have_attribute("target", "_blank")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
