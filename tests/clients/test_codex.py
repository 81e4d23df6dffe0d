"""Codex CLI itself, as README has it set up: a turn with a tool is two requests, and the tool's
file is there. The words come from a script; the prompts are Codex's own."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.core.request import GenerateRequest
from tests.clients.conftest import Served, serving
from tests.clients.npm import installed
from tests.clients.scripted_engine import Reply, ScriptedEngine, messages_of

VERSION = "0.171.0"
README = Path(__file__).parents[2] / "README.md"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def codex(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(
        "@openai/codex",
        version=VERSION,
        program="codex",
        folder=tmp_path_factory.mktemp("codex"),
        variable="MAXI_MLX_CODEX",
    )


def script(request: GenerateRequest) -> Reply:
    """A call of the shell where that is asked for, and a word on its result."""
    messages = messages_of(request)
    results = [message for message in messages if message.role == "tool"]
    if results:
        told = (results[-1].text or "").strip().splitlines()
        return Reply(f"The tool said: {told[-1]}")
    asked = " ".join(message.text or "" for message in messages if message.role == "user")
    if "write the file" in asked:
        command = "echo written by a tool > note.txt && cat note.txt"
        return Reply("I will.", ("exec_command", {"cmd": command}))
    return Reply("Hello from the script.")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, make_engine=partial(ScriptedEngine, script=script)) as served:
        yield served


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="maxi_mlx.requests")
    return caplog


def configuration(served: Served) -> str:
    """README's, for this server and this test's model, and with leave to do as it likes."""
    [table] = [
        part.partition("```")[0]
        for part in README.read_text().split("```toml\n")
        if "[model_providers." in part
    ]
    assert "http://127.0.0.1:11434/v1" in table
    table = table.replace("http://127.0.0.1:11434/v1", served.base_url)
    table = table.replace('"Qwen3-4B-4bit"', '"scripted"')
    return 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n' + table


def ask(codex: Path, served: Served, home: Path, prompt: str) -> list[dict[str, Any]]:
    """One question to Codex; gives the events that it reports."""
    work = home / "work"
    work.mkdir()
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(configuration(served))
    done = subprocess.run(
        [codex, "exec", "--skip-git-repo-check", "--json", prompt],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def words_in(events: list[dict[str, Any]]) -> list[str]:
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"].strip() for item in items if item["type"] == "agent_message"]


def requests_in(log: pytest.LogCaptureFixture) -> list[tuple[str, str, int]]:
    fields = [record.fields for record in log.records if hasattr(record, "fields")]
    return [(each["method"], each["path"], each["status"]) for each in fields]


@pytest.mark.clients(81, 82, 84, 86)
def test_point_81_a_question_is_one_request(
    codex: Path, served: Served, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    events = ask(codex, served, tmp_path, "Say hello.")
    assert words_in(events) == ["Hello from the script."]
    assert requests_in(log) == [("POST", "/v1/responses", 200)]
    [usage] = [event["usage"] for event in events if event["type"] == "turn.completed"]
    assert usage["input_tokens"] > 1000


@pytest.mark.clients(83, 84)
def test_point_83_a_turn_with_a_tool_is_two_requests(
    codex: Path, served: Served, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    events = ask(codex, served, tmp_path, "Please write the file.")
    assert words_in(events) == ["I will.", "The tool said: written by a tool"]
    assert (tmp_path / "work/note.txt").read_text() == "written by a tool\n"
    assert requests_in(log) == [("POST", "/v1/responses", 200)] * 2
    assert isinstance(served.engine, ScriptedEngine)
    names = {tool.name for tool in served.engine.requests[0].tools}
    # A namespace's tools are told to the model by their full names, and no web search.
    assert "exec_command" in names
    assert any("__" in name for name in names)
    assert not any("search" in name for name in names)
