"""What the page shows of the server while it works."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from maxi_mlx.server.keys import WATCHERS
from tests.browser.conftest import Tab, Tabs
from tests.clients.conftest import Served

pytestmark = pytest.mark.slow


def test_a_request_is_seen_and_cancelled(tab: Tab, tabs: Tabs, served: Served) -> None:
    other = tabs.new(served)
    other.open()
    other.ask("Talk slowly")
    expect(other.page.locator(".answer .text")).to_contain_text("Paragraph")
    tab.page.get_by_role("link", name="Status").click()
    request = tab.page.locator("#status-requests li")
    expect(request).to_contain_text("scripted")
    expect(request).to_contain_text("writing")
    expect(request).to_contain_text(re.compile(r"OpenAI · 20 prompt tokens · \d+ tokens"))
    first = request.inner_text()
    expect(request).not_to_have_text(first)  # it goes on
    expect(tab.page.locator("#status-speed")).to_have_text(re.compile(r"^[1-9]\d*\.\d$"))
    request.get_by_role("button", name="Cancel the request to scripted").click()
    expect(tab.page.locator("#no-requests")).to_be_visible()
    expect(other.page.locator(".error")).to_contain_text("cancelled at the server")


def test_a_model_is_loaded_and_unloaded(tab: Tab) -> None:
    tab.page.get_by_role("link", name="Status").click()
    model = tab.page.locator("#status-models li")
    expect(model).to_contain_text("scripted")
    if "not loaded" not in model.inner_text():
        model.get_by_role("button", name="Unload scripted").click()
    expect(model).to_contain_text("not loaded")
    model.get_by_role("button", name="Load scripted").click()
    expect(model).to_contain_text("of weights")
    expect(tab.page.locator("#bar-memory")).to_have_attribute(
        "aria-valuetext", re.compile(r"MB of .* GB")
    )
    model.get_by_role("button", name="Unload scripted").click()
    expect(model).to_contain_text("not loaded")


def test_nothing_is_asked_for_while_nobody_looks(tab: Tab, served: Served) -> None:
    tab.page.get_by_role("link", name="Status").click()
    expect(tab.page.locator("#status-about")).to_contain_text("maxi-mlx")
    served.wait(lambda: served.app[WATCHERS].num_watching == 1)
    tab.page.get_by_role("link", name="Chat").click()
    served.wait(lambda: served.app[WATCHERS].num_watching == 0)
