"""Programs that chat and compare, set up by `maxi-mlx connect CLIENT --write`."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest

from tests.clients import npm, pip
from tests.clients.conftest import RequestLog, Served, User
from tests.models.scripted import DIALOGUES, PARIS_QUESTION

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LLM = "llm==0.36"
PROMPTFOO = "promptfoo@0.121.20"
# Of what promptfoo can do without, 42 packages, it can't do without its database's own.
ARCHITECTURE = "arm64" if platform.machine() in ("arm64", "aarch64") else "x64"
LIBSQL = f"@libsql/{sys.platform}-{ARCHITECTURE}{'-gnu' * (sys.platform == 'linux')}@0.5.29"
CHAT = "/v1/chat/completions"
CAPITAL, QUESTION = DIALOGUES["capital"].reply, "What is the capital of France?"

# A plug-in of the user's own.
FUNCTIONS = '''
def get_weather(city: str) -> str:
    """The weather in a city"""
    open(f"{city}.txt", "w").write("21 degrees, clear")
    return "21 degrees, clear"

def get_time(city: str) -> str:
    """The time in a city"""
'''

# What is there of a user's before they connect it.
COMPARISON = """\
prompts: ["{{question}}"]
providers: []
tests:
  - vars: {question: "What is the capital of France?"}
    assert: [{type: equals, value: "The capital of France is Paris."}]
  - vars: {question: "hi"}
    assert: [{type: contains, value: "What can I do for you?"}]
"""


@pytest.fixture(scope="module")
def llm(clients_folder: Path) -> Path:
    return pip.installed(clients_folder / "llm", LLM) / "llm"


@pytest.fixture(scope="module")
def promptfoo(clients_folder: Path) -> Path:
    folder = clients_folder / "promptfoo"
    npm.installed(folder, PROMPTFOO, LIBSQL, omit_optional=True)
    return folder / "node_modules" / ".bin" / "promptfoo"


@pytest.mark.clients(1, 2, 6)
def test_llm(user: User, llm: Path, served: Served, log: RequestLog) -> None:
    user.connect("llm", served, "--write")
    assert "scripted" in user.run(llm, "models")
    ask = [llm, "-m", "scripted", "-o", "temperature", "0"]
    assert user.run(*ask, QUESTION).strip() == CAPITAL
    assert user.run(*ask, "--no-stream", QUESTION).strip() == CAPITAL
    shown = user.run(*ask, "--functions", FUNCTIONS, PARIS_QUESTION)
    assert shown.strip() == DIALOGUES["after a call"].reply
    assert (user.work / "Paris.txt").read_text() == "21 degrees, clear"
    assert log.paths == [CHAT] * 4


def test_promptfoo(user: User, promptfoo: Path, served: Served, log: RequestLog) -> None:
    configuration = user.work / "promptfooconfig.yaml"
    configuration.write_text(COMPARISON)
    user.connect("promptfoo", served, "--write")
    assert configuration.read_text().startswith(COMPARISON.partition("providers")[0])
    offline = {
        f"PROMPTFOO_DISABLE_{name}": "1" for name in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")
    }
    user.run(promptfoo, "eval", "--no-cache", "--no-table", "-o", "found.json", **offline)
    found = json.loads((user.work / "found.json").read_text())["results"]
    assert (found["stats"]["successes"], found["stats"]["failures"]) == (2, 0)
    assert log.paths == [CHAT] * 2
