"""Claude Code itself, as README has it set up: a turn with a tool is two requests, and the tool's
file is there. The words come from a script; the prompts are Claude Code's own."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.core.request import GenerateRequest
from tests.clients.conftest import Served, serving
from tests.clients.scripted_engine import Reply, ScriptedEngine, messages_of

VERSION = "2.1.197"
PACKAGE = f"@anthropic-ai/claude-code@{VERSION}"
PROGRAM = "node_modules/.bin/claude"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program: MAXI_MLX_CLAUDE_CODE names a folder that it is, or is to be, installed in."""
    given = os.environ.get("MAXI_MLX_CLAUDE_CODE")
    folder = Path(given) if given else tmp_path_factory.mktemp("claude-code")
    if not (folder / PROGRAM).exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("Claude Code needs npm, which is not installed")
        try:
            subprocess.run(
                [npm, "install", "--prefix", str(folder), PACKAGE],
                check=True,
                capture_output=True,
                timeout=240,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm can't install {PACKAGE}: {error}")
    program = folder / PROGRAM
    try:
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except OSError as error:
        pytest.skip(f"Claude Code does not run on this machine: {error}")
    if not shown.stdout.startswith(VERSION):
        pytest.skip(f"Claude Code does not run on this machine: {shown.stdout}{shown.stderr}")
    return program


def script(request: GenerateRequest) -> Reply:
    """A call of Bash where that is asked for, and a word on its result."""
    messages = messages_of(request)
    results = [message for message in messages if message.role == "tool"]
    if results:
        return Reply(f"The tool said: {results[-1].text}")
    asked = " ".join(message.text or "" for message in messages if message.role == "user")
    if "write the file" in asked:
        command = "echo written by a tool > note.txt && cat note.txt"
        return Reply("I will.", ("Bash", {"command": command, "description": "Writes the file"}))
    return Reply("Hello from the script.")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, make_engine=partial(ScriptedEngine, script=script)) as served:
        yield served


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="maxi_mlx.requests")
    return caplog


def ask(claude: Path, served: Served, home: Path, prompt: str) -> dict[str, Any]:
    """One question to Claude Code; gives its own report."""
    work = home / "work"
    work.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": served.base_url.removesuffix("/v1"),
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "scripted",
        "ANTHROPIC_SMALL_FAST_MODEL": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
    }
    done = subprocess.run(
        [claude, "-p", prompt, "--allowedTools", "Bash", "--output-format", "json"],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert not report["is_error"], report
    return dict(report)


def requests_in(log: pytest.LogCaptureFixture) -> list[tuple[str, str, int]]:
    fields = [record.fields for record in log.records if hasattr(record, "fields")]
    return [(each["method"], each["path"], each["status"]) for each in fields]


@pytest.mark.clients(65, 67, 68, 71, 74)
def test_point_65_a_question_is_one_request(
    claude: Path, served: Served, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    report = ask(claude, served, tmp_path, "Say hello.")
    assert report["result"].strip() == "Hello from the script."
    posts = [each for each in requests_in(log) if each[0] == "POST"]
    assert posts == [("POST", "/v1/messages", 200)]


@pytest.mark.clients(69, 70, 75)
def test_point_70_a_turn_with_a_tool_is_two_requests(
    claude: Path, served: Served, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    report = ask(claude, served, tmp_path, "Please write the file.")
    assert report["result"].strip() == "The tool said: written by a tool"
    assert (tmp_path / "work/note.txt").read_text() == "written by a tool\n"
    requests = requests_in(log)
    assert all(status == 200 for _, _, status in requests)
    assert [path for method, path, _ in requests if method == "POST"] == ["/v1/messages"] * 2
    assert [path for method, path, _ in requests if method == "HEAD"] == ["/"]


@pytest.mark.clients(76)
def test_point_76_its_view_of_the_context_counts_tokens(
    claude: Path, served: Served, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    ask(claude, served, tmp_path, "/context")
    counted = [each for each in requests_in(log) if each[1].endswith("/count_tokens")]
    assert counted
    assert all(status == 200 for _, _, status in counted)
    assert isinstance(served.engine, ScriptedEngine)
    assert (served.engine.num_counts, served.engine.requests) == (len(counted), [])
