"""A user unit of systemd's."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from maxi_mlx.cli.services.manager import Manager, State
from maxi_mlx.cli.services.unit import (
    DESCRIPTION,
    EXIT_SETUP,
    NAME,
    RESTART_AFTER_S,
    Unit,
)

SERVICE = f"{NAME}.service"
_COMMAND = "ExecStart="

_TEXT = """\
[Unit]
Description={description}

[Service]
Type=exec
{command_key}{command}
{environment}Restart=on-failure
RestartSec={restart_s}
RestartPreventExitStatus={setup}
TimeoutStopSec={stop_s}

[Install]
WantedBy=default.target
"""


class Systemd(Manager):
    advice = "log in as this user (or run `loginctl enable-linger` once), and install again"

    @property
    def path(self) -> Path:
        home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        return Path(home) / "systemd/user" / SERVICE

    def text(self, unit: Unit) -> bytes:
        variables = [f"{name}={value}" for name, value in unit.environment.items()]
        return _TEXT.format(
            description=DESCRIPTION,
            command_key=_COMMAND,
            command=" ".join(_quoted(word).replace("$", "$$") for word in unit.command),
            environment="".join(f"Environment={_quoted(each)}\n" for each in variables),
            restart_s=RESTART_AFTER_S,
            setup=EXIT_SETUP,
            stop_s=unit.stop_timeout_s,
        ).encode()

    def command(self) -> list[str]:
        lines = self.path.read_text().splitlines()
        line = next((line for line in lines if line.startswith(_COMMAND)), _COMMAND)
        words = shlex.split(line.removeprefix(_COMMAND))
        return [word.replace("$$", "$").replace("%%", "%") for word in words]

    def state(self) -> State:
        properties = "--property=ActiveState,SubState,MainPID"
        outcome = self._run(("systemctl", "--user", "show", SERVICE, properties))
        found = dict(line.partition("=")[::2] for line in outcome.output.splitlines())
        active = found.get("ActiveState", "unknown")
        words = f"{active} ({found['SubState']})" if "SubState" in found else outcome.output
        process_id = int(found.get("MainPID") or 0)
        return State(active in ("active", "activating"), words, process_id or None)

    def log_command(self, *, num_lines: int, follow: bool) -> list[str]:
        command = ["journalctl", "--user", "-u", SERVICE, f"--lines={num_lines}"]
        return [*command, "--follow"] if follow else [*command, "--no-pager"]

    def _start(self) -> None:
        self._do("systemctl", "--user", "daemon-reload")
        self._do("systemctl", "--user", "enable", SERVICE)
        # And not `enable --now`, which would leave one that runs as it was.
        self._do("systemctl", "--user", "restart", SERVICE)

    def _stop(self) -> None:
        self._do("systemctl", "--user", "disable", "--now", SERVICE)

    def _forget(self) -> None:
        self._do("systemctl", "--user", "daemon-reload")


def _quoted(word: str) -> str:
    """As one word of a unit's line."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
