"""A launchd agent, which runs while its user is logged in."""

from __future__ import annotations

import os
import plistlib
import re
import time
from pathlib import Path
from typing import Any

from maxi_mlx.cli.services.manager import Manager, State
from maxi_mlx.cli.services.unit import NAME, RESTART_AFTER_S, Unit
from maxi_mlx.core.errors import SetupError

POLL_S = 0.2


class Launchd(Manager):
    advice = "it starts at the next login; `maxi-mlx service logs` may say more"
    gone_within_s = 60.0  # an agent that drains its last answers

    @property
    def path(self) -> Path:
        return Path("~/Library/LaunchAgents").expanduser() / f"{NAME}.plist"

    @property
    def log(self) -> Path:
        return Path("~/Library/Logs").expanduser() / f"{NAME}.log"

    def text(self, unit: Unit) -> bytes:
        agent: dict[str, Any] = {
            "Label": NAME,
            "ProgramArguments": list(unit.command),
            "EnvironmentVariables": dict(unit.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": RESTART_AFTER_S,
            "ExitTimeOut": unit.stop_timeout_s,
            "ProcessType": "Interactive",  # else it is slowed down as background work
            "StandardOutPath": str(self.log),
            "StandardErrorPath": str(self.log),
        }
        return plistlib.dumps(agent, sort_keys=False)

    def command(self) -> list[str]:
        found = plistlib.loads(self.path.read_bytes())["ProgramArguments"]
        return [str(word) for word in found]

    def state(self) -> State:
        outcome = self._run(("launchctl", "print", self._target))
        if outcome.code:
            return State(False, "not loaded", None)
        state = re.search(r"^\s*state = (.+)$", outcome.output, re.MULTILINE)
        process = re.search(r"^\s*pid = (\d+)$", outcome.output, re.MULTILINE)
        return State(
            process is not None,
            state[1] if state else "loaded",
            int(process[1]) if process else None,
        )

    def log_command(self, *, num_lines: int, follow: bool) -> list[str]:
        return ["tail", "-n", str(num_lines), *(["-F"] if follow else []), str(self.log)]

    def _start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self._is_loaded():
            self._stop()
        self._do("launchctl", "enable", self._target)
        self._do("launchctl", "bootstrap", self._domain, str(self.path))

    def _stop(self) -> None:
        if not self._is_loaded():
            return
        self._do("launchctl", "bootout", self._target)
        # It returns before the agent is gone, and until then there can't be a new one.
        ends_at = time.monotonic() + self.gone_within_s
        while self._is_loaded():
            if time.monotonic() > ends_at:
                raise SetupError(f"{NAME} has not ended after {self.gone_within_s:g} s")
            time.sleep(POLL_S)

    def _forget(self) -> None:
        """Launchd knows it no more."""

    def _is_loaded(self) -> bool:
        return self._run(("launchctl", "print", self._target)).code == 0

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _target(self) -> str:
        return f"{self._domain}/{NAME}"
