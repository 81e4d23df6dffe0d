"""What README.md tells a newcomer to run against the server does what it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

README = (Path(__file__).parents[2] / "README.md").read_text()
ADDRESS = "http://127.0.0.1:11434"


def fenced(language: str, *, containing: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (block,) = [text for text in blocks if containing in text]
    assert isinstance(block, str)
    return block


def test_the_curl_command_is_answered(smollm2_url: str) -> None:
    command = fenced("sh", containing="curl").replace(ADDRESS, smollm2_url)
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=200)
    answer = json.loads(done.stdout)
    assert "Paris" in answer["choices"][0]["message"]["content"]


def test_the_sdk_program_prints_the_answer(smollm2_url: str) -> None:
    program = fenced("python", containing="OpenAI(").replace(ADDRESS, smollm2_url)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=200
    )
    assert "Paris" in done.stdout
