"""Agents of the command line, set up by `maxi-mlx connect CLIENT --write`: their prompts, a tool
of theirs, and the file that it leaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.clients import npm, pip, turns
from tests.clients.conftest import RequestLog, Served, User

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OPENCODE, CONTINUE = "opencode-ai@1.18.33", "@continuedev/cli@1.5.47"
AIDER = "aider-chat==0.86.2"
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def opencode(clients_folder: Path) -> Path:
    return npm.program(clients_folder / "opencode", OPENCODE, "opencode")


@pytest.fixture(scope="module")
def continue_(clients_folder: Path) -> Path:
    return npm.program(clients_folder / "continue", CONTINUE, "cn")


@pytest.fixture(scope="module")
def aider(clients_folder: Path) -> Path:
    if sys.version_info >= (3, 13):
        pytest.skip("aider is not for Python 3.13 and newer")
    return pip.installed(clients_folder / "aider", AIDER) / "aider"


def wrote_the_file(user: User) -> bool:
    return (user.work / turns.FILE).read_text() == turns.CONTENT


@pytest.mark.clients(1, 2, 3, 24)
def test_opencode(user: User, opencode: Path, agent_served: Served, log: RequestLog) -> None:
    user.connect("opencode", agent_served, "--write")
    off = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    listed = user.run(opencode, "models", "maxi-mlx", **off)
    assert listed.split() == ["maxi-mlx/scripted"]
    shown = user.run(opencode, "run", "Please write the file.", **off)
    assert turns.TOLD in shown
    assert wrote_the_file(user)
    # The turn, what comes after its tool, and a title beside them.
    assert log.paths == [CHAT] * 3


@pytest.mark.clients(1, 2, 6, 9)
def test_continue(user: User, continue_: Path, agent_served: Served, log: RequestLog) -> None:
    user.connect("continue", agent_served, "--write")
    configuration = user.home / ".continue" / "config.yaml"
    command = [continue_, "--config", configuration, "--auto", "-p"]
    shown = user.run(*command, "Please write the file.", CONTINUE_TELEMETRY_ENABLED="0")
    assert shown.strip() == turns.TOLD
    assert wrote_the_file(user)
    assert log.paths == [CHAT] * 2


def test_aider(user: User, aider: Path, agent_served: Served, log: RequestLog) -> None:
    user.connect("aider", agent_served, "--write")
    command = [aider, "--no-check-update", "--analytics-disable", "--yes-always", "--no-git"]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    streamed = user.run(*command, "--message", "Please write the file.", "note.txt", **offline)
    assert "Applied edit to note.txt" in streamed
    assert wrote_the_file(user)
    whole = ["--no-stream", "--chat-mode", "ask", "--message", "Say hello."]
    assert turns.GREETING in user.run(*command, *whole, **offline)
    assert log.paths == [CHAT] * 2
