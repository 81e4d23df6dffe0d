"""The README's picture, made anew: python -m tests.browser.picture FOLDER, which has SmolLM2."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path

import pytest
from PIL import Image as Pillow
from playwright.sync_api import Route, expect, sync_playwright

from maxi_mlx.core.settings import Settings
from tests.browser.conftest import Tabs, options
from tests.clients.conftest import serving

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
SIZE = {"width": 1180, "height": 790}
NUM_COLOURS = 128  # as many as need be: the file is a third as large
QUESTIONS = (
    ("What is the capital of France?",),
    ("Write a haiku about the sea.",),
    ("Give me three tips for better sleep.", "Write a Python function that adds two numbers."),
)


def steady(route: Route) -> None:
    """So that the picture is the same each time."""
    asked = json.loads(route.request.post_data or "")
    route.continue_(post_data=json.dumps({**asked, "temperature": 0, "max_tokens": 400}))


def take(folder: Path) -> None:
    settings = Settings(model="SmolLM2-135M-Instruct")
    with serving(folder, settings) as served, sync_playwright() as playwright:
        tab = Tabs(playwright.chromium.launch(**options())).new(served, scale=1)
        page = tab.open()
        page.set_viewport_size(SIZE)
        page.route("**/v1/chat/completions", steady)
        for questions in QUESTIONS:
            page.get_by_role("button", name="New chat").click()
            for question in questions:
                expect(page.locator("#message")).to_be_enabled(timeout=60_000)
                tab.ask(question)
                sent = page.get_by_label("Send", exact=True)
                expect(sent).to_be_visible(timeout=120_000)
        page.locator("#message").hover()
        page.wait_for_timeout(500)
        shot = io.BytesIO(page.screenshot())
        Pillow.open(shot).convert("RGB").quantize(NUM_COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAXI_MLX_HOME", home)
        take(Path(sys.argv[1]))
