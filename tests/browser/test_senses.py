"""Pictures and recordings, where there is a model for them."""

from __future__ import annotations

import json
import re
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import Playwright, expect

from tests.browser.conftest import Tab, Tabs, options
from tests.clients.conftest import serving
from tests.models import whisper
from tests.sounds import needs_speech, voice, wav
from tests.vision.conftest import HAS_EXTRA as HAS_VISION
from tests.vision.conftest import seeing_models as seeing_models

pytestmark = pytest.mark.slow

needs_vision = pytest.mark.skipif(
    not HAS_VISION, reason='the extra "vision" isn\'t installed; docs/vision.md says how'
)


def png() -> bytes:
    """A picture of one dot."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\x00\xff\xc0\x00")),
        (b"IEND", b""),
    )
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def choose(tab: Tab, name: str, data: bytes) -> None:
    file = {"name": name, "mimeType": "image/png", "buffer": data}
    tab.page.locator("#file").set_input_files(file)


@needs_vision
def test_a_picture_goes_to_a_model_that_sees(tabs: Tabs, seeing_models: Path) -> None:
    """The tiny model's answer means nothing, but it is one to the picture."""
    with serving(seeing_models) as served:
        tab = tabs.new(served)
        page = tab.open()
        expect(page.get_by_label("Add a picture")).to_be_visible()
        choose(tab, "none.png", b"none")
        expect(page.locator("#notice-words")).to_have_text(re.compile("none.png.*is no picture"))
        expect(page.get_by_role("button", name="Try again")).to_be_hidden()
        choose(tab, "dot.png", png())
        expect(page.get_by_alt_text("Picture 1")).to_be_visible()
        page.get_by_label("Remove the picture").click()
        expect(page.locator("#attached li")).to_have_count(0)
        choose(tab, "dot.png", png())
        expect(page.get_by_alt_text("Picture 1")).to_be_visible()
        page.locator("#message").fill("What is this?")
        with page.expect_request("**/v1/chat/completions") as sent:
            page.keyboard.press("Enter")
        [message] = json.loads(sent.value.post_data or "")["messages"]
        picture, text = message["content"]
        assert text == {"type": "text", "text": "What is this?"}
        assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
        expect(page.get_by_alt_text("Your picture")).to_be_visible()
        expect(page.locator("#notice")).to_be_hidden()
        expect(page.get_by_label("Send", exact=True)).to_be_visible()
        expect(page.locator(".error")).to_have_count(0)


@needs_speech
def test_a_recording_becomes_text_in_the_box(
    playwright: Playwright, scripted_model: Path, tmp_path: Path
) -> None:
    """The browser's microphone plays a file; the tiny speech model writes the same of any voice."""
    folder = tmp_path / "models"
    shutil.copytree(scripted_model, folder / "scripted")
    whisper.build_whisper(folder / "speech")
    sound = tmp_path / "voice.wav"
    sound.write_bytes(wav(voice(3)))
    arguments = [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={sound}",
    ]
    with serving(folder) as served:
        browser = playwright.chromium.launch(**options(*arguments))
        tab = Tabs(browser).new(served)
        page = tab.open()
        page.locator("#message").fill("Before:")
        page.get_by_label("Record your voice").click()
        expect(page.get_by_label("Stop recording")).to_be_visible()
        page.wait_for_timeout(1500)
        page.get_by_label("Stop recording").click()
        expect(page.locator("#message")).to_have_value(re.compile(r"Before: \w+"), timeout=120_000)
        expect(page.get_by_label("Record your voice")).to_be_enabled()
        browser.close()
