"""The page in a real browser: Chromium without a window, on a server with the scripted model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, Request, expect, sync_playwright

from maxi_mlx.core.settings import Settings
from tests.browser.speeches import SPEECHES
from tests.browser.talking_engine import TalkingEngine
from tests.clients.conftest import Served, serving
from tests.clients.conftest import clients_folder as clients_folder

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}

expect.set_options(timeout=60_000)


def options(*arguments: str) -> dict[str, Any]:
    """What starts Chromium; skips the test where there is none."""
    found = [path for name in PROGRAMS if (path := shutil.which(name))]
    if not found:
        pytest.skip("the page's tests need Chromium (apt-get install chromium)")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {"executable_path": found[0], "args": [*as_root, *arguments]}


# Not for the whole session: as long as it is there, no other test's event loop can run.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(**options())
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def models(scripted_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(scripted_model, folder / "scripted")
    return folder


@pytest.fixture(scope="module")
def served(models: Path) -> Iterator[Served]:
    engine = partial(TalkingEngine, speeches=SPEECHES)
    with serving(models, make_engine=engine) as served:
        yield served


@pytest.fixture(scope="module")
def served_with_key(models: Path) -> Iterator[Served]:
    engine = partial(TalkingEngine, speeches=SPEECHES)
    with serving(models, Settings(api_keys=("right", "schlüssel")), make_engine=engine) as served:
        yield served


@dataclass
class Tab:
    """The page in a tab, and what went over the wire and to the console."""

    page: Page
    url: str
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, place: str = "") -> Page:
        self.page.bring_to_front()
        self.page.goto(self.url + place)
        return self.page

    def ask(self, text: str) -> None:
        self.page.locator("#message").fill(text)
        self.page.keyboard.press("Enter")

    def answer(self) -> str:
        """The last answer's words, once it is complete."""
        expect(self.page.get_by_label("Send", exact=True)).to_be_visible()
        return self.page.locator(".answer .text").last.inner_text()

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")


@dataclass(frozen=True)
class Tabs:
    browser: Browser

    def new(
        self, served: Served, *, is_phone: bool = False, is_dark: bool = False, scale: int = 2
    ) -> Tab:
        context = self.browser.new_context(
            viewport=PHONE if is_phone else DESKTOP,
            device_scale_factor=scale,
            has_touch=is_phone,
            is_mobile=is_phone,
            color_scheme="dark" if is_dark else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
        tab = Tab(context.new_page(), served.base_url.removesuffix("v1"))
        tab.page.on("request", lambda request: tab.requests.append(request))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        return tab


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Tabs]:
    yield Tabs(browser)
    for context in browser.contexts:
        context.close()


@pytest.fixture
def tab(tabs: Tabs, served: Served) -> Iterator[Tab]:
    tab = tabs.new(served)
    tab.open()
    yield tab
    assert tab.complaints == []
