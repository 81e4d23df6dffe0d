"""Codex CLI itself, set up by `maxi-mlx connect`: a turn with a tool is two requests, and the
tool's file is there. The words come from a script; the prompts are Codex's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import npm, turns
from tests.clients.conftest import RequestLog, Served, User
from tests.clients.scripted_engine import ScriptedEngine

PACKAGE = "@openai/codex@0.171.0"
# With leave to do as it likes, which its users give it themselves.
TRUST = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def codex(clients_folder: Path) -> Path:
    return npm.program(clients_folder / "codex", PACKAGE, "codex")


@pytest.fixture
def connected(user: User, agent_served: Served) -> User:
    configuration = user.home / ".codex" / "config.toml"
    configuration.parent.mkdir()
    configuration.write_text(TRUST)
    user.connect("codex", agent_served, "--write")
    assert configuration.read_text().startswith(TRUST)
    return user


def ask(codex: Path, user: User, prompt: str) -> list[dict[str, Any]]:
    """One question to Codex; gives the events that it reports."""
    shown = user.run(codex, "exec", "--skip-git-repo-check", "--json", prompt)
    return [json.loads(line) for line in shown.splitlines()]


def words_in(events: list[dict[str, Any]]) -> list[str]:
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"].strip() for item in items if item["type"] == "agent_message"]


@pytest.mark.clients(81, 82, 84, 86)
def test_point_81_a_question_is_one_request(codex: Path, connected: User, log: RequestLog) -> None:
    events = ask(codex, connected, "Say hello.")
    assert words_in(events) == [turns.GREETING]
    assert log.requests == [("POST", "/v1/responses", 200)]
    [usage] = [event["usage"] for event in events if event["type"] == "turn.completed"]
    assert usage["input_tokens"] > 1000


@pytest.mark.clients(83, 84)
def test_point_83_a_turn_with_a_tool_is_two_requests(
    codex: Path, connected: User, agent_served: Served, log: RequestLog
) -> None:
    events = ask(codex, connected, "Please write the file.")
    assert words_in(events) == ["I will.", turns.TOLD]
    assert (connected.work / turns.FILE).read_text() == turns.CONTENT
    assert log.requests == [("POST", "/v1/responses", 200)] * 2
    assert isinstance(agent_served.engine, ScriptedEngine)
    names = {tool.name for tool in agent_served.engine.requests[0].tools}
    # A namespace's tools are told to the model by their full names, and no web search.
    assert "exec_command" in names
    assert any("__" in name for name in names)
    assert not any("search" in name for name in names)
