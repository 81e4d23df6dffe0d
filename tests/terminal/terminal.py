"""``maxi-mlx`` in a pseudo-terminal: what a person types, and what the screen shows then."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte

from tests.unit.cli.commands import environment

LINES, COLUMNS = 24, 80
WITHIN_S = 120.0
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


class _Screen(pyte.HistoryScreen):
    """Answers the program's questions, as terminals do, through the child's stdin."""

    def __init__(self, child: pexpect.spawn[bytes]) -> None:
        super().__init__(COLUMNS, LINES, history=1000)
        self._child = child

    def write_process_input(self, data: str) -> None:
        self._child.send(data)


class Terminal:
    """``raw`` is all that the program wrote."""

    def __init__(self, child: pexpect.spawn[bytes]) -> None:
        self.child = child
        self.raw = b""
        self._screen = _Screen(child)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        """What is on the screen, and what has scrolled off it."""
        above = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*above, *(line.rstrip() for line in self._screen.display)]).rstrip()

    def type(self, text: str) -> None:
        self.child.send(text)

    def enter(self, text: str) -> None:
        self.child.send(text + "\r")

    def resize(self, columns: int) -> None:
        self._screen.resize(LINES, columns)
        self.child.setwinsize(LINES, columns)

    def read(self, for_s: float) -> None:
        """What comes in that time."""
        ends_at = time.monotonic() + for_s
        while (left_s := ends_at - time.monotonic()) > 0:
            try:
                data = self.child.read_nonblocking(65536, timeout=left_s)
            except pexpect.TIMEOUT:
                return
            except pexpect.EOF:
                return
            self.raw += data
            self._stream.feed(data)

    def wait_for(self, words: str) -> None:
        self.wait_for_text(lambda text: words in text, words)

    def wait_for_text(self, is_wanted: Callable[[str], bool], name: str) -> None:
        ends_at = time.monotonic() + WITHIN_S
        while not is_wanted(self.text):
            assert time.monotonic() < ends_at, f"no {name!r} on the screen:\n{self.text}"
            assert self.child.isalive() or self._rest(), f"ended without {name!r}:\n{self.text}"
            self.read(0.05)

    def wait_for_prompt(self) -> None:
        ends_at = time.monotonic() + WITHIN_S
        while not self.text.endswith(("\n>", "\n…")):
            assert time.monotonic() < ends_at, f"no prompt on the screen:\n{self.text}"
            self.read(0.05)

    def wait_for_end(self) -> int:
        """The exit code."""
        ends_at = time.monotonic() + WITHIN_S
        while self.child.isalive():
            assert time.monotonic() < ends_at, f"goes on:\n{self.text}"
            self.read(0.05)
        self._rest()
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -1

    def _rest(self) -> bool:
        before = len(self.raw)
        self.read(0.2)
        return len(self.raw) > before


@contextmanager
def terminal(
    *arguments: str, home: Path, extra: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    variables = environment(home, {"TERM": "xterm-256color", "LANG": "C.UTF-8", **(extra or {})})
    if extra is None or "NO_COLOR" not in extra:
        variables.pop("NO_COLOR", None)
    child = pexpect.spawn(
        sys.executable,
        ["-m", "maxi_mlx", *arguments],
        env=variables,
        cwd=str(home),
        dimensions=(LINES, COLUMNS),
        timeout=WITHIN_S,
        encoding=None,
    )
    child.delaybeforesend = None
    shown = Terminal(child)
    try:
        yield shown
    finally:
        child.close(force=True)
