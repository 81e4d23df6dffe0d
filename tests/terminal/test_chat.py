"""`maxi-mlx chat` at a terminal and in a pipe: what is shown while answers come, and after."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from maxi_mlx.core.settings import Settings
from tests.clients.conftest import serving
from tests.clients.scripted_engine import messages_of
from tests.terminal.conftest import Wait
from tests.terminal.paced_engine import PacedEngine
from tests.terminal.terminal import COLOUR, Terminal, terminal
from tests.unit.cli.commands import environment

pytestmark = pytest.mark.slow

READY = "Ctrl-D leaves\n>"
CODE = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def chat(tmp_path: Path, variables: Mapping[str, str]) -> Iterator[Terminal]:
    with terminal("chat", home=tmp_path, extra=variables) as shown:
        shown.wait_for(READY)
        yield shown


def say(shown: Terminal, text: str) -> None:
    shown.wait_for_prompt()
    shown.enter(text)


def leave(shown: Terminal) -> None:
    shown.wait_for_prompt()
    shown.child.sendeof()
    assert shown.wait_for_end() == 0
    assert "Traceback" not in shown.text


def test_a_conversation(chat: Terminal, engine: PacedEngine, tmp_path: Path) -> None:
    say(chat, "hello you")
    chat.wait_for("[1] hello you\n")
    say(chat, "and again")
    chat.wait_for("[3] and again\n")
    say(chat, "/system Be brief.")
    say(chat, "/retry")
    chat.wait_for("[4] and again\n")
    say(chat, "/model TWIN:latest")
    chat.wait_for("\ntwin\n")
    say(chat, "/new")
    say(chat, "once more")
    chat.wait_for("[2] once more\n")
    say(chat, "/save talk.md")
    chat.wait_for("saved to talk.md")
    say(chat, "/save talk.md")
    chat.wait_for("maxi-mlx: talk.md is there already; choose another name")
    say(chat, "/nonsense")
    chat.wait_for("there is no /nonsense; /help lists what there is")
    leave(chat)
    assert [request.model for request in engine.requests] == ["scripted"] * 3 + ["twin"]
    assert [message.role for message in messages_of(engine.requests[-1])] == ["system", "user"]


def test_streaming_and_ctrl_c(chat: Terminal, engine: PacedEngine, wait: Wait) -> None:
    say(chat, "count 500")
    chat.wait_for(" 20 21 ")
    assert "500 " not in chat.text.replace("count 500", "")
    chat.child.sendintr()
    chat.wait_for("stopped")
    wait(lambda: engine.num_left_off == 1)
    say(chat, "go on")
    chat.wait_for("[3] go on")
    said = messages_of(engine.requests[-1])[1]
    assert said.role == "assistant"
    assert (said.text or "").startswith("1 2 3 ")
    chat.wait_for_prompt()
    chat.child.sendintr()
    chat.wait_for("Ctrl-D or /exit leaves")
    leave(chat)


def test_markdown_and_its_colours(chat: Terminal) -> None:
    say(chat, "markdown")
    chat.wait_for("End.")
    assert "\nTitle\n\nSome bold and code words.\n\n• one\n• two\n" in chat.text
    assert CODE in chat.text
    assert "a │ b\n──┼───\n1 │ 22\n\nEnd." in chat.text
    assert chat.text.count("Title") == 1
    assert b"\x1b[1mbold\x1b[0m" in chat.raw
    say(chat, "think")
    chat.wait_for("It is 42.")
    assert b"\x1b[2mI\x1b[0m" in chat.raw
    leave(chat)


def test_no_color(tmp_path: Path, variables: Mapping[str, str]) -> None:
    extra = {**variables, "NO_COLOR": "1"}
    with terminal("chat", "scripted", home=tmp_path, extra=extra) as chat:
        chat.wait_for(READY)
        say(chat, "markdown")
        chat.wait_for("End.")
        assert "Some **bold** and `code` words." in chat.text
        say(chat, "think")
        chat.wait_for("I wonder. Yes.\n\nIt is 42.")
        leave(chat)
        assert set(COLOUR.findall(chat.raw)) <= {b"\x1b[0m"}


def test_hostile_text_is_inert(chat: Terminal) -> None:
    chat.read(0.3)
    before = len(chat.raw)
    say(chat, "hostile")
    chat.wait_for("and �back")
    answer = chat.raw[before:]
    for command in (b"\x1b]0;", b"\x07", b"\x1b[2J", b"\x9b31m".decode("latin1").encode()):
        assert command not in answer
    assert "Ctrl-D leaves" in chat.text  # the screen was not cleared
    leave(chat)


def test_several_lines(chat: Terminal, engine: PacedEngine) -> None:
    say(chat, '"""one')
    say(chat, "two")
    say(chat, 'three"""')
    chat.wait_for("[1] one\n")
    chat.wait_for_prompt()
    chat.type("four\x1b\rfive\r")
    chat.wait_for("[3] four\n")
    say(chat, "six\\")
    say(chat, "seven")
    chat.wait_for("[5] six\n")
    chat.wait_for_prompt()
    chat.type("\x1b[200~pasted\nlines\x1b[201~\r")
    chat.wait_for("[7] pasted\n")
    leave(chat)
    asked = [messages_of(request)[-1].text for request in engine.requests]
    assert asked == ["one\ntwo\nthree", "four\nfive", "six\nseven", "pasted\nlines"]


def test_history_across_chats(tmp_path: Path, variables: Mapping[str, str]) -> None:
    for asked, answer in (("first words", "[1] first words"), ("\x1b[A", "[1] first words")):
        with terminal("chat", home=tmp_path, extra=variables) as shown:
            shown.wait_for(READY)
            say(shown, asked)
            shown.wait_for(answer)
            leave(shown)
    history = tmp_path / ".maxi-mlx/chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_resize_while_an_answer_comes(chat: Terminal, engine: PacedEngine) -> None:
    say(chat, "hold 120")
    chat.wait_for(" 20 21 ")
    chat.resize(40)
    engine.go_on.set()
    chat.wait_for("119 120")
    answer = chat.raw[chat.raw.index(b"1 2 3 ") :].decode()
    assert answer.split()[:120] == [str(number) for number in range(1, 121)]
    lines = answer[: answer.index("120")].splitlines()
    assert len(lines[0]) > 40
    assert len(lines) > 3
    assert all(len(line) <= 40 for line in lines[1:])
    say(chat, "still here")
    chat.wait_for("[3] still here")
    leave(chat)


def test_typing_meanwhile_waits_for_the_prompt(chat: Terminal) -> None:
    say(chat, "count 60")
    chat.wait_for(" 10 11 ")
    chat.enter("next one")
    chat.wait_for("[3] next one")
    numbers = chat.text[chat.text.index("1 2 3 ") : chat.text.index("> next")].split()
    assert numbers == [str(number) for number in range(1, 61)]
    leave(chat)


def test_an_answer_that_fails_and_a_server_that_goes(paced_models: Path, tmp_path: Path) -> None:
    with serving(paced_models, Settings(), make_engine=PacedEngine) as served:
        port = served.base_url.removesuffix("/v1").rpartition(":")[2]
        arguments = ["chat", "twin", "--port", port, "--model-dir", str(paced_models)]
        shown = terminal(*arguments, home=tmp_path)
        chat = shown.__enter__()
        chat.wait_for(READY)
        say(chat, "fail")
        chat.wait_for("Half an\n\nmaxi-mlx: The device failed.")
        say(chat, "hello")
        chat.wait_for("[1] hello")
        say(chat, "slow")
        chat.wait_for("Begun")
    try:
        chat.wait_for("maxi-mlx: ")
        say(chat, "/new")
        say(chat, "hi")  # of a server of its own
        chat.wait_for("Hi there! What can I do for you?")
        leave(chat)
    finally:
        shown.__exit__(None, None, None)


def test_in_a_pipe(tmp_path: Path, variables: Mapping[str, str], engine: PacedEngine) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "maxi_mlx", "chat"],
        env=environment(tmp_path, variables),
        input='hello\nthink\n\n/nonsense\n/save ~no-such-user/x\n/save a\0b\n"""a\nb"""\nlast',
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0
    assert done.stdout == "[1] hello\nIt is 42.\n[5] a\nb\n[7] last\n"
    assert done.stderr.splitlines() == [
        "maxi-mlx: there is no /nonsense; /help lists what there is",
        "maxi-mlx: ~no-such-user/x: no such file or directory",
        "maxi-mlx: a\ufffdb: embedded null byte",
    ]


def test_tab_completes_commands_and_models(chat: Terminal) -> None:
    chat.type("/mod\t")
    chat.wait_for("> /model")
    chat.type(" tw\t")
    chat.wait_for("> /model twin")
    chat.type("\r")
    chat.wait_for("\ntwin\n")
    leave(chat)
