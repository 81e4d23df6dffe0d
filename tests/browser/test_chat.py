"""Talking to a model on the page."""

from __future__ import annotations

import re

import pytest
import requests
from playwright.sync_api import expect

from tests.browser.conftest import Tab
from tests.browser.speeches import CODE, SPEECHES, THOUGHT
from tests.clients.conftest import Served
from tests.models.scripted import DIALOGUES

pytestmark = pytest.mark.slow

CLIPBOARD = "navigator.clipboard.readText()"


def question(name: str) -> str:
    return str(DIALOGUES[name].messages[-1]["content"])


def conversations(tab: Tab) -> list[str]:
    return tab.page.locator(".conversation").all_inner_texts()


def test_an_answer_word_for_word(tab: Tab) -> None:
    tab.ask(question("capital"))
    assert tab.answer() == DIALOGUES["capital"].reply
    expect(tab.page.locator(".numbers")).to_have_text(re.compile(r"scripted · \d+ tokens"))
    tab.ask(question("story"))  # with what was said before
    assert tab.answer() == DIALOGUES["story"].reply


def test_an_answer_comes_while_it_is_written_and_can_be_stopped(tab: Tab, served: Served) -> None:
    tab.ask("Talk slowly")
    expect(tab.page.locator(".answer .text")).to_contain_text("Paragraph 1")
    tab.page.get_by_label("Stop the answer").click()
    expect(tab.page.locator(".note")).to_have_text("Stopped.")
    shown = tab.answer()
    assert "Paragraph 100" not in shown
    status = f"{served.base_url}/status"
    served.wait(lambda: requests.get(status, timeout=60).json()["requests"] == [])
    assert tab.answer() == shown


def test_a_message_is_edited_and_sent_again(tab: Tab) -> None:
    tab.ask(question("list"))
    assert tab.answer().split() == ["Red", "Green", "Blue"]
    tab.ask("Show me everything")
    tab.answer()
    first = tab.page.locator(".user").first
    first.hover()
    first.get_by_label("Edit and send again").click()
    area = first.get_by_label("Your message", exact=True)
    assert area.input_value() == question("list")
    area.fill(question("capital"))
    area.press("Enter")
    expect(tab.page.locator(".message")).to_have_count(2)
    expect(tab.page.locator(".answer .text")).to_have_text(DIALOGUES["capital"].reply)
    assert tab.page.locator(".bubble").inner_text() == question("capital")


def test_an_edit_can_be_left(tab: Tab) -> None:
    tab.ask(question("capital"))
    tab.answer()
    tab.page.locator(".user").hover()
    tab.page.get_by_label("Edit and send again").click()
    tab.page.keyboard.type("more")
    tab.page.keyboard.press("Escape")
    assert tab.page.locator(".bubble").inner_text() == question("capital")


def test_a_failure_is_said_in_the_conversation_and_can_be_tried_again(tab: Tab) -> None:
    tab.ask("Break off")
    error = tab.page.locator(".error")
    expect(error).to_contain_text(str(SPEECHES["Break off"].fails))
    assert tab.page.locator(".answer .text").inner_text() == "I was about to"
    error.get_by_role("button", name="Try again").click()
    expect(tab.page.locator(".answer")).to_have_count(1)
    expect(tab.page.locator(".error")).to_be_visible()


def test_an_answer_can_be_had_again(tab: Tab) -> None:
    tab.ask(question("capital"))
    tab.answer()
    tab.page.locator(".answer").get_by_label("Try again").click()
    assert tab.answer() == DIALOGUES["capital"].reply
    expect(tab.page.locator(".message")).to_have_count(2)


def test_thoughts_are_folded(tab: Tab) -> None:
    tab.ask("What is 6 times 7?")
    assert tab.answer() == "It is 42."
    thought = tab.page.locator(".thought")
    expect(thought).to_be_hidden()
    tab.page.locator("summary").press("Enter")
    expect(thought).to_have_text(THOUGHT)
    expect(tab.page.locator("summary")).to_have_text(re.compile(r"Thought for \d"))


def test_code_is_copied_as_it_is(tab: Tab) -> None:
    tab.ask("Show me everything")
    tab.answer()
    tab.page.get_by_label("Copy the code").click()
    assert tab.page.evaluate(CLIPBOARD) == CODE
    tab.page.get_by_label("Copy the answer").click()
    assert tab.page.evaluate(CLIPBOARD) == SPEECHES["Show me everything"].text


def test_markdown_becomes_elements(tab: Tab) -> None:
    tab.ask("Show me everything")
    tab.answer()
    text = tab.page.locator(".answer .text")
    counts = {"h5": 1, "ol > li": 3, "ul ul, ol ul": 1, "table tr": 3, "blockquote": 1, "strong": 1}
    for selector, count in counts.items():
        expect(text.locator(selector)).to_have_count(count)
    expect(text.locator("a")).to_have_attribute("href", "https://example.com/a_b")
    expect(text.locator("a")).to_have_attribute("rel", re.compile("noopener"))
    assert text.locator("pre code").inner_text() == CODE
    expect(text.locator("input[type=checkbox]").first).to_be_checked()


def test_conversations_are_kept_in_the_browser_until_they_are_deleted(tab: Tab) -> None:
    tab.ask(question("capital"))
    tab.answer()
    tab.page.get_by_role("button", name="New chat").click()
    expect(tab.page.locator("#empty")).to_be_visible()
    tab.ask("What is 6 times 7?")
    tab.answer()
    tab.open()
    assert conversations(tab) == ["What is 6 times 7?", question("capital")]
    tab.page.get_by_role("button", name=question("capital"), exact=True).click()
    assert tab.answer() == DIALOGUES["capital"].reply
    tab.page.locator("#conversations li").first.hover()
    tab.page.get_by_label("Delete “What is 6 times 7?”").click()
    assert conversations(tab) == [question("capital")]
    tab.page.get_by_role("button", name="Delete all").click()
    tab.page.get_by_role("button", name="Delete all").last.click()
    expect(tab.page.locator(".conversation")).to_have_count(0)
    expect(tab.page.locator("#empty")).to_be_visible()
    stored = tab.page.evaluate("Object.keys(localStorage)")
    assert [name for name in stored if "conversation" in name] == []


def test_an_answer_goes_on_while_another_conversation_is_read(tab: Tab) -> None:
    tab.ask("Talk slowly")
    expect(tab.page.locator(".answer .text")).to_contain_text("Paragraph 0")
    tab.page.get_by_role("button", name="New chat").click()
    tab.ask(question("capital"))
    assert tab.answer() == DIALOGUES["capital"].reply
    tab.page.get_by_role("button", name="Talk slowly", exact=True).click()
    expect(tab.page.locator(".answer .text")).to_contain_text("Paragraph 3")
    tab.page.get_by_label("Stop the answer").click()
    expect(tab.page.locator(".note")).to_have_text("Stopped.")


RESTS = """() => new Promise((done) => {
  const messages = document.querySelector("#scroll"), at = messages.scrollTop;
  setTimeout(() => done(messages.scrollTop === at), 300);
})"""


def test_what_is_read_stays_where_it_is(tab: Tab) -> None:
    tab.ask("Talk at length")
    expect(tab.page.locator(".answer .text")).to_contain_text("Paragraph 30")
    tab.page.locator("#messages").hover()
    tab.page.mouse.wheel(0, -2000)
    expect(tab.page.get_by_label("To the end")).to_be_visible()
    tab.page.wait_for_function(RESTS)
    place = tab.page.evaluate("document.querySelector('#scroll').scrollTop")
    tab.page.wait_for_timeout(500)
    assert tab.page.evaluate("document.querySelector('#scroll').scrollTop") == place
    tab.page.get_by_label("To the end").click()
    expect(tab.page.get_by_label("To the end")).to_be_hidden()
    tab.page.get_by_label("Stop the answer").click()


def test_an_unreachable_server_is_said_to_be(tab: Tab) -> None:
    tab.page.context.set_offline(True)
    tab.ask("Hello!")
    expect(tab.page.locator(".error")).to_contain_text("The server can't be reached.")
    tab.page.context.set_offline(False)
    tab.page.locator(".error").get_by_role("button", name="Try again").click()
    assert tab.answer() == DIALOGUES["greeting"].reply
    tab.complaints.clear()  # the browser says so, too


def test_a_file_that_is_dropped_is_not_opened(tab: Tab) -> None:
    expect(tab.page.locator("#message")).to_be_enabled()
    dropped = """(element) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["x"], "a.png", { type: "image/png" }));
      const more = { dataTransfer, bubbles: true, cancelable: true };
      return !element.dispatchEvent(new DragEvent("drop", more));
    }"""
    assert tab.page.locator("#scroll").evaluate(dropped)
    expect(tab.page.locator("#notice")).to_be_hidden()
    assert tab.page.locator("#message").evaluate(dropped)
    expect(tab.page.locator("#notice-words")).to_have_text("The chosen model sees no pictures.")


def test_there_is_no_button_where_no_model_sees_or_hears(tab: Tab) -> None:
    expect(tab.page.locator("#message")).to_be_enabled()
    expect(tab.page.get_by_label("Add a picture")).to_be_hidden()
    expect(tab.page.get_by_label("Record your voice")).to_be_hidden()
