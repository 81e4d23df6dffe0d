"""`maxi-mlx run` in pipes and at a terminal, against a server and with one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.terminal.conftest import Wait
from tests.terminal.paced_engine import PacedEngine
from tests.terminal.terminal import COLOUR, terminal
from tests.unit.cli.commands import environment

pytestmark = pytest.mark.slow

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, variables: Mapping[str, str]) -> Run:
    def run(*arguments: str, stdin: str = "", extra: Mapping[str, str] | None = None) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "maxi_mlx", "run", *arguments],
            env=environment(tmp_path, {**variables, **(extra or {})}),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


def outcome(done: Done) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_only_the_answer_in_a_pipe(run: Run, engine: PacedEngine) -> None:
    assert outcome(run("hello you")) == (0, "[1] hello you\n", "")
    assert outcome(run("think")) == (0, "It is 42.\n", "")
    assert outcome(run("twin", "hello", "--system", "Be brief.")) == (0, "[2] hello\n", "")
    assert [request.model for request in engine.requests] == ["scripted", "scripted", "twin"]


def test_text_on_stdin(run: Run) -> None:
    assert run(stdin="from a pipe").stdout == "[1] from a pipe\n"
    assert run("say", stdin="a\nb\n").stdout == "[1] say\n\na\nb\n"
    assert run("TWIN:latest", stdin="the word names a model").stdout.startswith("[1] the word")


def test_hostile_text_is_inert_and_exact_as_json(run: Run) -> None:
    plain = run("hostile").stdout
    assert plain.encode().isascii() is False
    assert not {"\x1b", "\x07", "\x9b", "\x08", "\r", "\u202e"} & set(plain)
    told = run("hostile", "--json").stdout
    assert told.isascii()
    assert "\x1b" not in told
    text = json.loads(told)["text"]
    assert "\x1b[2J" in text
    assert "\x9b31m" in text


def test_where_few_characters_are_known(run: Run) -> None:
    assert run("a→b", extra={"PYTHONIOENCODING": "latin-1"}).stdout == "[1] a?b\n"


def test_json(run: Run) -> None:
    done = run("think", "--json")
    assert done.stdout.count("\n") == 1
    answer = json.loads(done.stdout)
    assert (answer["model"], answer["text"]) == ("scripted", "It is 42.")
    assert (answer["reasoning"], answer["finish_reason"]) == ("I wonder. Yes.", "stop")
    assert answer["usage"]["completion_tokens"] == 1
    assert answer["timings"]["total_s"] >= answer["timings"]["first_token_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "stdout", "words"),
    [
        pytest.param(["fail"], 1, "Half an \n", "maxi-mlx: The device failed.\n", id="broken"),
        pytest.param(["nobody", "hi"], 1, "", "maxi-mlx: The model 'nobody' was not", id="model"),
        pytest.param(["", "hi"], 2, "", "maxi-mlx: the model's name is empty", id="no model"),
        pytest.param([], 2, "", "maxi-mlx: nothing to ask: maxi-mlx run ", id="nothing"),
        pytest.param(["scripted"], 2, "", "for a conversation: maxi-mlx chat scripted", id="chat"),
        pytest.param(["a", "b", "c"], 2, "", "maxi-mlx: 3 words were given; put the", id="words"),
        pytest.param(
            ["count 3", "--max-tokens", "3"], 0, "1 2 3 \n", "cut at its limit of 3", id="cut"
        ),
    ],
)
def test_ends(run: Run, arguments: list[str], code: int, stdout: str, words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, stdout)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_key(run: Run) -> None:
    done = run("hello", extra={"MAXI_MLX_API_KEY": "wrong"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "wants its API key; set MAXI_MLX_API_KEY" in done.stderr


def test_pieces_as_they_come_and_ctrl_c(
    tmp_path: Path, variables: Mapping[str, str], engine: PacedEngine, wait: Wait
) -> None:
    with terminal("run", "slow", home=tmp_path, extra=variables) as shown:
        shown.wait_for("Begun")
        shown.child.sendintr()
        assert shown.wait_for_end() == 130
        assert "Traceback" not in shown.text
    wait(lambda: engine.num_left_off == 1)


def test_reader_that_leaves(
    tmp_path: Path, variables: Mapping[str, str], engine: PacedEngine, wait: Wait
) -> None:
    command = [sys.executable, "-m", "maxi_mlx", "run", "count 2000"]
    with subprocess.Popen(
        command,
        env=environment(tmp_path, variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(4) == b"1 2 "
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
    wait(lambda: engine.num_left_off == 1)


def test_what_is_waited_for_is_shown_at_a_terminal_alone(
    run: Run, tmp_path: Path, variables: Mapping[str, str], engine: PacedEngine
) -> None:
    words = "Waiting for the first word  0:"
    with terminal("run", "held", home=tmp_path, extra=variables) as shown:
        shown.wait_for(words)
        first = shown.text
        shown.wait_for_text(lambda text: words in text and text != first, "a later second")
        engine.go_on.set()
        assert shown.wait_for_end() == 0
        assert shown.text == "Done."
    assert outcome(run("wait")) == (0, "Done.\n", "")


@pytest.mark.parametrize("no_color", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
def test_thoughts_at_a_terminal(
    tmp_path: Path, variables: Mapping[str, str], no_color: Mapping[str, str]
) -> None:
    with terminal("run", "think", home=tmp_path, extra={**variables, **no_color}) as shown:
        assert shown.wait_for_end() == 0
        assert shown.text == "I wonder. Yes.\n\nIt is 42."
        assert bool(COLOUR.search(shown.raw)) is not bool(no_color)


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_of_its_own(tmp_path: Path, paced_models: Path) -> None:
    home = {"MAXI_MLX_PORT": "1"}  # where none answers
    command = ["-m", "maxi_mlx", "run", "--model-dir", str(paced_models), "--temperature", "0"]
    for prompt, answer in (
        (["scripted", "What is the capital of France?"], "The capital of France is Paris.\n"),
        (["twin", "hi"], "Hi there! What can I do for you?\n"),
    ):
        done = subprocess.run(
            [sys.executable, *command, *prompt],
            env=environment(tmp_path, home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert outcome(done) == (0, answer, "")


@pytest.mark.parametrize("end", ["interrupt", "kill"])
def test_its_own_server_ends_with_it(tmp_path: Path, paced_models: Path, end: str) -> None:
    arguments = ["run", "--model-dir", str(paced_models), "scripted", "Count to 50."]
    with terminal(*arguments, home=tmp_path, extra={"MAXI_MLX_PORT": "1"}) as shown:
        while not (found := subprocess_of(shown.child.pid)):
            shown.read(0.05)
        if end == "interrupt":
            shown.child.sendintr()
            assert shown.wait_for_end() == 130
        else:
            shown.child.kill(9)
            shown.wait_for_end()
    ends_at = time.monotonic() + 120
    while is_alive(found):
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def subprocess_of(process_id: int) -> int | None:
    found = subprocess.run(["pgrep", "-P", str(process_id)], capture_output=True, text=True)
    return int(found.stdout) if found.stdout.strip() else None
