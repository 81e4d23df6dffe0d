"""The page as a whole: loading, the key, narrow screens, colours, and those who can't see."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from maxi_mlx.server.page_files import FOLDER
from tests.browser.conftest import Tab, Tabs
from tests.clients import npm
from tests.clients.conftest import Served, serving
from tests.models.scripted import DIALOGUES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AXE = "axe-core@4.10.3"
MAX_BYTES = 150_000
MAX_PAINT_MS = 300
NUM_TRIES = 10  # what else runs on the machine may be in the way of some
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def light_of(tab: Tab) -> int:
    """How light the ground is, from 0 to 255."""
    colour = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(colour.removeprefix("rgb(").split(",")[0])


def test_it_loads_at_once_and_from_here_alone(tabs: Tabs, served: Served) -> None:
    paints = []
    while len(paints) < NUM_TRIES and min(paints, default=MAX_PAINT_MS) >= MAX_PAINT_MS:
        tab = tabs.new(served)
        tab.open()
        tab.page.wait_for_function(PAINT)
        paints.append(tab.page.evaluate(PAINT))
        tab.page.wait_for_load_state("networkidle")
        assert all(each.url.startswith(tab.url) for each in tab.requests)
        tab.page.close()
    if min(paints) >= MAX_PAINT_MS:  # a slow machine, as a page of one word shows
        bare = tabs.new(served).page
        bare.route("**/bare", lambda route: route.fulfill(content_type="text/html", body="word"))
        plain = []
        for _ in range(NUM_TRIES):
            bare.goto(served.base_url.removesuffix("v1") + "bare")
            bare.wait_for_function(PAINT)
            plain.append(bare.evaluate(PAINT))
        assert min(paints) < 6 * min(plain), (paints, plain)


def test_its_files_are_small() -> None:
    import maxi_mlx.server

    folder = Path(maxi_mlx.server.__file__).parent / FOLDER
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert sum(sizes.values()) < MAX_BYTES, sizes


def test_the_key_is_asked_for_and_kept_for_this_tab(tabs: Tabs, served_with_key: Served) -> None:
    tab = tabs.new(served_with_key)
    page = tab.open()
    expect(page.get_by_role("dialog")).to_contain_text("needs an API key")
    page.get_by_label("API key", exact=True).last.fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("doesn't know that key")
    page.get_by_label("API key", exact=True).last.fill("right")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#model")).to_have_value("scripted")
    tab.ask("Hello!")
    assert tab.answer() == DIALOGUES["greeting"].reply
    page.get_by_role("link", name="Status").click()
    expect(page.locator("#status-tokens")).to_contain_text("written since the start")
    tab.open()
    expect(page.locator("#model")).to_have_value("scripted")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.evaluate("JSON.stringify(localStorage)").find("right") < 0


def test_without_the_key_it_says_what_is_missing(tabs: Tabs, served_with_key: Served) -> None:
    tab = tabs.new(served_with_key)
    page = tab.open()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#notice-words")).to_contain_text("This server needs an API key")
    page.get_by_role("button", name="Try again").click()
    page.get_by_label("API key", exact=True).last.fill("right")
    page.keyboard.press("Enter")
    expect(page.locator("#model")).to_have_value("scripted")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_key_may_have_any_characters(tabs: Tabs, served_with_key: Served) -> None:
    tab = tabs.new(served_with_key)
    page = tab.open()
    page.get_by_label("API key", exact=True).last.fill("right\u200b")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("doesn't know that key")
    page.get_by_label("API key", exact=True).last.fill("schlüssel")
    page.keyboard.press("Enter")
    expect(page.locator("#model")).to_have_value("scripted")


def test_whoever_has_no_key_is_asked_once(tabs: Tabs, served_with_key: Served) -> None:
    tab = tabs.new(served_with_key)
    page = tab.open("#status")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#status-fault")).to_contain_text("This server needs an API key")
    page.wait_for_timeout(2500)  # in which the stream would have been tried again
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("button", name="Try again").click()
    page.get_by_label("API key", exact=True).last.fill("right")
    page.keyboard.press("Enter")
    expect(page.locator("#status-about")).to_contain_text("maxi-mlx")
    expect(page.locator("#status-fault")).to_be_hidden()


def test_it_fits_a_phone(tabs: Tabs, served: Served) -> None:
    tab = tabs.new(served, is_phone=True)
    page = tab.open()
    for text in ("Show me everything", "Attack the page"):
        page.locator("#message").fill(text)
        page.get_by_label("Send", exact=True).click()
        tab.answer()
    assert_fits(tab)
    tab.screenshot("phone-chat")
    page.get_by_role("link", name="Status").click()
    expect(page.locator("#status-about")).to_contain_text("maxi-mlx")
    assert_fits(tab)
    tab.screenshot("phone-status")
    expect(page.get_by_role("button", name="New chat")).to_be_hidden()
    page.get_by_role("button", name="Conversations").click()
    expect(page.get_by_role("button", name="New chat")).to_be_focused()
    tab.screenshot("phone-menu")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Conversations")).to_be_focused()


def assert_fits(tab: Tab) -> None:
    for selector in ("html", "#scroll", "#status"):
        sizes = tab.page.evaluate(
            f"(() => {{ const e = document.querySelector('{selector}');"
            " return [e.scrollWidth, e.clientWidth] })()"
        )
        assert sizes[0] <= sizes[1], (selector, sizes)


def test_it_follows_the_systems_colours_until_told_otherwise(tabs: Tabs, served: Served) -> None:
    tab = tabs.new(served, is_dark=True)
    page = tab.open()
    assert light_of(tab) < 60
    page.get_by_label("Light colours").click()
    assert light_of(tab) > 200
    tab.open()
    assert light_of(tab) > 200
    page.get_by_label("Dark colours").click()
    assert light_of(tab) < 60


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("is_phone", [False, True], ids=["desktop", "phone"])
def test_axe_finds_no_serious_fault(
    tabs: Tabs, served: Served, clients_folder: Path, is_dark: bool, is_phone: bool
) -> None:
    axe = (npm.installed(clients_folder / "axe", AXE) / "axe-core" / "axe.min.js").read_text()
    tab = tabs.new(served, is_dark=is_dark, is_phone=is_phone)
    page = tab.open()
    faults = {"empty": faults_of(tab, axe)}
    for text in ("Hello!", "What is 6 times 7?", "Show me everything", "Break off"):
        page.locator("#message").fill(text)
        page.get_by_label("Send", exact=True).click()
        tab.answer()
    page.locator("summary").click()
    faults["chat"] = faults_of(tab, axe)
    if not is_phone:
        tab.screenshot(f"{'dark' if is_dark else 'light'}-chat")
        page.get_by_role("button", name="Delete all").click()
        faults["dialog"] = faults_of(tab, axe)
        page.get_by_role("button", name="Cancel").click()
    page.get_by_role("link", name="Status").click()
    expect(page.locator("#status-about")).to_contain_text("maxi-mlx")
    faults["status"] = faults_of(tab, axe)
    if not is_phone:
        tab.screenshot(f"{'dark' if is_dark else 'light'}-status")
    assert not any(faults.values()), faults


def faults_of(tab: Tab, axe: str) -> list[Any]:
    tab.page.wait_for_timeout(300)  # until nothing moves
    tab.page.evaluate(axe)
    found = tab.page.evaluate("axe.run()")
    return [
        (each["id"], [node["html"] for node in each["nodes"]], json.dumps(each["nodes"][0]["any"]))
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_it_can_be_used_by_keys_alone(tab: Tab) -> None:
    page = tab.page
    page.locator("#message").wait_for()
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the message box")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_be_focused()
    page.keyboard.type("Hello!")
    page.keyboard.press("Enter")
    assert tab.answer() == DIALOGUES["greeting"].reply


def test_a_model_that_goes_is_missed(tabs: Tabs, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    for name in ("goes", "stays"):
        shutil.copytree(models / "scripted", folder / name)
    with serving(folder) as served:
        tab = tabs.new(served)
        page = tab.open()
        tab.ask("Hello!")
        assert tab.answer() == DIALOGUES["greeting"].reply
        page.locator("#model").select_option("stays")
        page.reload()
        expect(page.locator("#model")).to_have_value("goes")  # the conversation's
        shutil.rmtree(folder / "goes")
        page.get_by_role("link", name="Status").click()
        expect(page.locator("#notice-words")).to_have_text(
            "The model goes isn't here any more. The next message goes to stays."
        )
        page.get_by_label("Close").click()
        page.get_by_role("button", name="Hello!", exact=True).click()
        expect(page.locator("#notice")).to_be_hidden()  # it is shown already
        page.get_by_role("button", name="New chat").click()
        page.get_by_role("button", name="Hello!", exact=True).click()
        expect(page.locator("#notice-words")).to_contain_text("goes isn't here any more")
