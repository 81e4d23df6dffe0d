"""What the two service managers have in common: a file, and commands that are run for it."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from maxi_mlx.cli.services.unit import Unit
from maxi_mlx.core.errors import SetupError

COMMAND_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    output: str


Run = Callable[[Sequence[str]], Outcome]
Say = Callable[[str], None]


def run_command(command: Sequence[str]) -> Outcome:
    """Raises SetupError where there is no such program."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise SetupError(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{' '.join(command)} took more than {COMMAND_TIMEOUT_S} s") from None
    return Outcome(done.returncode, done.stdout.strip())


@dataclass(frozen=True, slots=True)
class State:
    """``words`` are the manager's own for it."""

    is_running: bool
    words: str
    process_id: int | None


class Manager(ABC):
    """``run`` is how commands are run; what they do is told to ``say``, line by line."""

    advice: ClassVar[str]  # where a command of the manager's fails

    def __init__(self, *, run: Run = run_command, say: Say) -> None:
        self._run = run
        self._say = say

    @property
    @abstractmethod
    def path(self) -> Path:
        """Where the unit's file belongs."""

    @abstractmethod
    def text(self, unit: Unit) -> bytes:
        """The unit's file."""

    @abstractmethod
    def command(self) -> list[str]:
        """The one in the unit's file."""

    @abstractmethod
    def state(self) -> State: ...

    @abstractmethod
    def log_command(self, *, num_lines: int, follow: bool) -> list[str]: ...

    @abstractmethod
    def _start(self) -> None:
        """With the unit as it is written now, in place of one that runs."""

    @abstractmethod
    def _stop(self) -> None: ...

    @abstractmethod
    def _forget(self) -> None:
        """After the file is gone."""

    @property
    def is_installed(self) -> bool:
        return self.path.is_file()

    def install(self, unit: Unit) -> None:
        """Writes the file, whatever becomes of the rest, and starts the service. Raises SetupError
        where the manager can't be had, and for what would be more than a line of the file."""
        for word in (*unit.command, *unit.environment.values()):
            if not word.isprintable():
                raise SetupError(f"{word!r} can't be part of a service: it has control characters")
        text = self.text(unit)
        is_new = not self.is_installed or self.path.read_bytes() != text
        if is_new:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(text)
            self._say(f"Wrote {self.path}")
        else:
            self._say(f"{self.path} says so already")
        try:
            if is_new or not self.state().is_running:
                self._start()
        except SetupError as error:
            raise SetupError(f"{error.message}. The file is written; {self.advice}") from None

    def uninstall(self) -> None:
        """Stops the service and removes the file, which goes even where there is no manager."""
        if not self.is_installed:
            self._say(f"Nothing to remove: there is no {self.path}")
            return
        try:
            self._stop()
        finally:
            self.path.unlink()
            self._say(f"Removed {self.path}")
        self._forget()

    def _do(self, *command: str) -> None:
        """A step that has to succeed."""
        self._say(f"$ {' '.join(command)}")
        outcome = self._run(command)
        if outcome.code:
            reason = " ".join(outcome.output.split()) or f"exit code {outcome.code}"
            raise SetupError(f"{' '.join(command)} failed: {reason}")
