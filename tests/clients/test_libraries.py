"""Libraries of Node and Python, pointed at the server by what `maxi-mlx connect` prints: they list
models, chat whole and streamed, and go on from a tool's call, which has left its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import RequestLog, Served, User, variables_in
from tests.models.scripted import DIALOGUES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAMS = Path(__file__).parent / "programs"
MODELS = ["acme/twin", "other/twin", "scripted"]
CAPITAL, AFTER_CALL = DIALOGUES["capital"].reply, DIALOGUES["after a call"].reply
CHAT = "/v1/chat/completions"


def check_loops(user: User, shown: Any) -> None:
    assert shown["afterCalls"] == [AFTER_CALL] * 2
    assert (user.work / "Paris.txt").read_text() == "21 degrees, clear"


@pytest.mark.clients(1, 2, 8, 80)
def test_openai_for_node(user: User, node_modules: Path, served: Served, log: RequestLog) -> None:
    variables = variables_in(user.connect("openai", served))
    (user.work / "node_modules").symlink_to(node_modules)
    program = user.program(PROGRAMS / "openai_sdk.mjs")
    shown = json.loads(user.run("node", program, **variables))
    assert sorted(shown["models"]) == MODELS
    assert shown["texts"] == [CAPITAL, CAPITAL, DIALOGUES["hi"].reply]
    check_loops(user, shown)
    assert log.paths == ["/v1/models", *[CHAT] * 6, "/v1/responses"]


@pytest.mark.clients(53, 65, 69)
def test_anthropic_for_node(
    user: User, node_modules: Path, served: Served, log: RequestLog
) -> None:
    variables = variables_in(user.connect("anthropic", served))
    (user.work / "node_modules").symlink_to(node_modules)
    program = user.program(PROGRAMS / "anthropic_sdk.mjs")
    shown = json.loads(user.run("node", program, **variables))
    assert sorted(shown["models"]) == MODELS
    assert shown["texts"] == [CAPITAL, CAPITAL]
    check_loops(user, shown)
    assert log.paths == ["/v1/models", *["/v1/messages"] * 6]


@pytest.mark.clients(1, 2, 3)
def test_litellm(user: User, library_python: Path, served: Served, log: RequestLog) -> None:
    variables = variables_in(user.connect("litellm", served))
    variables["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched
    program = user.program(PROGRAMS / "litellm_chat.py")
    shown = json.loads(user.run(library_python, program, **variables).splitlines()[-1])
    assert shown["texts"] == [CAPITAL, CAPITAL]
    check_loops(user, shown)
    assert log.paths == [CHAT] * 6


@pytest.mark.clients(1, 2)
def test_langchain(user: User, library_python: Path, served: Served, log: RequestLog) -> None:
    (user.work / "connected.py").write_text(user.connect("langchain", served))
    program = user.program(PROGRAMS / "langchain_chat.py")
    first, last = user.run(library_python, program).splitlines()
    assert first == CAPITAL  # the lines of code by themselves
    shown = json.loads(last)
    assert shown["texts"] == [CAPITAL, CAPITAL]
    check_loops(user, shown)
    assert log.paths == [CHAT] * 7
