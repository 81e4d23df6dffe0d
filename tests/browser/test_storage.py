"""What the page keeps in the browser: in several tabs, over a reload, where there is no room."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Tab, Tabs
from tests.clients.conftest import Served
from tests.models.scripted import DIALOGUES

pytestmark = pytest.mark.slow

FORBIDDEN = """for (const name of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });
}"""
OTHERS = """() => [1, 2].forEach((id) => localStorage.setItem(
  `maxi-mlx.conversation.${id}`,
  JSON.stringify({
    id: String(id),
    title: `Other ${id}`,
    changed: id,
    messages: [{ role: "user", text: "x".repeat(1 << 19) }],
  }),
))"""
# Of what else is there, which the page leaves alone.
FULL = """() => {
  for (let length = 1 << 20, place = 0; length > 0; ) {
    try {
      localStorage.setItem(`else ${place++}`, "x".repeat(length));
    } catch {
      length >>= 1;
    }
  }
}"""


def conversations(tab: Tab) -> list[str]:
    return tab.page.locator(".conversation").all_inner_texts()


def test_it_works_where_the_browser_keeps_nothing(tabs: Tabs, served: Served) -> None:
    tab = tabs.new(served)
    tab.page.add_init_script(FORBIDDEN)
    tab.open()
    expect(tab.page.locator("#no-conversations")).to_contain_text("keeps nothing")
    tab.ask("Hello!")
    assert tab.answer() == DIALOGUES["greeting"].reply
    assert conversations(tab) == ["Hello!"]
    assert tab.complaints == []


def test_one_that_is_too_large_to_be_kept_costs_no_other(tab: Tab) -> None:
    tab.page.evaluate(OTHERS)
    tab.open()
    tab.ask("Hello! " + "x" * 6_000_000)
    expect(tab.page.locator("#notice-words")).to_contain_text("larger than the browser keeps")
    expect(tab.page.get_by_label("Send", exact=True)).to_be_visible()
    assert conversations(tab) == ["Other 2", "Other 1"]
    tab.complaints.clear()  # the model, too, finds it too long


def test_the_oldest_make_room(tab: Tab) -> None:
    tab.page.evaluate(OTHERS)
    tab.page.evaluate(FULL)
    tab.open()
    tab.ask("Hello!")
    assert tab.answer() == DIALOGUES["greeting"].reply
    assert conversations(tab) == ["Hello!", "Other 2"]


def test_a_choice_can_be_made_where_there_is_no_room(tab: Tab) -> None:
    tab.page.evaluate("localStorage.clear()")
    tab.page.evaluate(FULL)
    tab.open()
    expect(tab.page.locator("#message")).to_be_enabled()
    tab.page.get_by_label("Dark colours").click()
    expect(tab.page.get_by_label("Light colours")).to_be_visible()


def test_a_conversation_goes_on_in_another_tab(tab: Tab, tabs: Tabs, served: Served) -> None:
    tab.ask("Hello!")
    tab.answer()
    other = Tab(tab.page.context.new_page(), tab.url)
    other.page.goto(tab.page.url)
    other.answer()
    tab.page.bring_to_front()
    tab.ask("What is 6 times 7?")
    tab.answer()
    other.page.bring_to_front()
    expect(other.page.locator(".message")).to_have_count(4)
    other.ask("Hello!")
    expect(other.page.locator(".message")).to_have_count(6)
    other.answer()
    other.page.reload()
    expect(other.page.locator(".message")).to_have_count(6)


def test_what_another_tab_deletes_does_not_come_back(tab: Tab) -> None:
    tab.ask("Talk slowly")
    expect(tab.page.locator(".answer .text")).to_contain_text("Paragraph 1")
    other = Tab(tab.page.context.new_page(), tab.url)
    other.open()
    other.page.get_by_role("button", name="Delete all").click()
    other.page.get_by_role("button", name="Delete all").last.click()
    expect(other.page.locator(".conversation")).to_have_count(0)
    tab.page.bring_to_front()
    expect(tab.page.locator("#empty")).to_be_visible()
    assert tab.page.evaluate("location.hash") == "#chat"
    tab.page.wait_for_timeout(2500)  # in which it would have been saved
    assert conversations(tab) == []
    other.page.close()


def test_the_address_leads_back_to_a_conversation(tab: Tab) -> None:
    tab.ask("Hello!")
    tab.answer()
    tab.page.reload()
    assert tab.answer() == DIALOGUES["greeting"].reply
    tab.page.get_by_role("button", name="New chat").click()
    expect(tab.page.locator("#empty")).to_be_visible()
    tab.page.get_by_role("link", name="Status").click()
    expect(tab.page.locator("#status")).to_be_visible()
    tab.page.go_back()
    expect(tab.page.locator("#empty")).to_be_visible()
    tab.page.go_back()
    expect(tab.page.locator(".bubble")).to_have_text("Hello!")
    tab.open("#chat/gone")
    expect(tab.page.locator("#empty")).to_be_visible()


def test_an_answer_that_a_closed_page_left_is_said_to_be_unfinished(tab: Tab) -> None:
    tab.ask("Talk slowly")
    expect(tab.page.locator(".answer .text")).to_contain_text("Paragraph 1")
    other = Tab(tab.page.context.new_page(), tab.url)
    url = tab.page.url
    tab.page.close()
    other.page.goto(url)
    expect(other.page.locator(".note")).to_have_text("The answer isn't complete.")
    other.page.close()
