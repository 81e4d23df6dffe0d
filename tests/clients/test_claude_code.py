"""Claude Code itself, set up by `maxi-mlx connect`: a turn with a tool is two requests, and the
tool's file is there. The words come from a script; the prompts are Claude Code's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients import npm, turns
from tests.clients.conftest import RequestLog, Served, User, variables_in
from tests.clients.scripted_engine import ScriptedEngine

PACKAGE = "@anthropic-ai/claude-code@2.1.197"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def claude(clients_folder: Path) -> Path:
    return npm.program(clients_folder / "claude-code", PACKAGE, "claude")


def ask(claude: Path, user: User, prompt: str, **variables: str) -> dict[str, Any]:
    """One question to Claude Code; gives its own report."""
    command = [claude, "-p", prompt, "--allowedTools", "Bash", "--output-format", "json"]
    report = json.loads(user.run(*command, DISABLE_TELEMETRY="1", **variables))
    assert not report["is_error"], report
    return dict(report)


@pytest.mark.clients(65, 67, 68, 71, 74)
def test_point_65_a_question_is_one_request(
    claude: Path, agent_served: Served, user: User, log: RequestLog
) -> None:
    # By the lines for one shell, which come after those of the file.
    shown = user.connect("claude-code", agent_served)
    variables = variables_in(shown[shown.index("export ") :])
    report = ask(claude, user, "Say hello.", **variables)
    assert report["result"].strip() == turns.GREETING
    posts = [each for each in log.requests if each[0] == "POST"]
    assert posts == [("POST", "/v1/messages", 200)]


@pytest.mark.clients(69, 70, 75)
def test_point_70_a_turn_with_a_tool_is_two_requests(
    claude: Path, agent_served: Served, user: User, log: RequestLog
) -> None:
    user.connect("claude-code", agent_served, "--write")
    report = ask(claude, user, "Please write the file.")
    assert report["result"].strip() == turns.TOLD
    assert (user.work / turns.FILE).read_text() == turns.CONTENT
    requests = log.requests
    assert [path for method, path, _ in requests if method == "POST"] == ["/v1/messages"] * 2
    assert [path for method, path, _ in requests if method == "HEAD"] == ["/"]


@pytest.mark.clients(76)
def test_point_76_its_view_of_the_context_counts_tokens(
    claude: Path, agent_served: Served, user: User, log: RequestLog
) -> None:
    user.connect("claude-code", agent_served, "--write")
    ask(claude, user, "/context")
    counted = [path for path in log.paths if path.endswith("/count_tokens")]
    assert counted
    assert isinstance(agent_served.engine, ScriptedEngine)
    assert (agent_served.engine.num_counts, agent_served.engine.requests) == (len(counted), [])
