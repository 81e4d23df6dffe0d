"""`maxi-mlx service`: the files it writes for both managers, and the commands it runs for them."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from maxi_mlx.cli.services.launchd import Launchd
from maxi_mlx.cli.services.manager import Manager, Outcome
from maxi_mlx.cli.services.systemd import Systemd
from maxi_mlx.cli.services.unit import Unit
from maxi_mlx.core.errors import SetupError
from tests.unit.cli.commands import run

NASTY = ("--model-dir=/a b/$HOME/100%/c\\d/\"e\"/'f'", "--cors=*", "--keep-alive=-1")
UNIT = Unit(
    command=(sys.executable, "-m", "maxi_mlx", "serve", *NASTY),
    environment={"MAXI_MLX_HOME": "/models here/50%"},
    drain_timeout_s=30.0,
)
OTHER = Unit(command=(sys.executable, "-m", "maxi_mlx", "serve"), environment={}, drain_timeout_s=5)


class Desk:
    """Stands in for the manager's program: answers commands that begin so, the first that fits."""

    def __init__(self, answers: Mapping[str, Outcome] | None = None) -> None:
        self.answers = dict(answers or {})
        self.commands: list[str] = []
        self.said: list[str] = []

    def run(self, command: Sequence[str]) -> Outcome:
        line = " ".join(command)
        self.commands.append(line)
        found = next((text for text in self.answers if line.startswith(text)), None)
        return self.answers[found] if found is not None else Outcome(0, "")

    @property
    def changes(self) -> list[str]:
        """The commands that do something."""
        asking = ("systemctl --user show", "launchctl print")
        return [line for line in self.commands if not line.startswith(asking)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def manager(desk: Desk, kind: type[Manager]) -> Manager:
    return kind(run=desk.run, say=desk.said.append)


SYSTEMD_SHOWS = "systemctl --user show"
RUNS = Outcome(0, "ActiveState=active\nSubState=running\nMainPID=77\n")
STARTS = [
    "systemctl --user daemon-reload",
    "systemctl --user enable maxi-mlx.service",
    "systemctl --user restart maxi-mlx.service",
]


def test_systemd_unit(home: Path) -> None:
    desk = Desk()
    systemd = manager(desk, Systemd)
    systemd.install(UNIT)
    assert systemd.path == home / ".config/systemd/user/maxi-mlx.service"
    text = systemd.path.read_text()
    assert (
        f'ExecStart="{sys.executable}" "-m" "maxi_mlx" "serve" '
        '"--model-dir=/a b/$$HOME/100%%/c\\\\d/\\"e\\"/\'f\'" "--cors=*" "--keep-alive=-1"\n'
    ) in text
    assert 'Environment="MAXI_MLX_HOME=/models here/50%%"\n' in text
    assert "TimeoutStopSec=60\n" in text
    assert systemd.command() == list(UNIT.command)
    assert desk.changes == STARTS
    assert desk.said == [f"Wrote {systemd.path}", *(f"$ {line}" for line in STARTS)]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", [UNIT, OTHER], ids=["with all", "with little"])
def test_systemd_takes_the_unit(home: Path, unit: Unit) -> None:
    systemd = manager(Desk(), Systemd)
    systemd.install(unit)
    runtime = home / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(systemd.path)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_LOG_LEVEL": "warning"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("kind", [Systemd, Launchd])
def test_a_line_of_its_own_can_not_be_smuggled_in(home: Path, kind: type[Manager]) -> None:
    service = manager(Desk(), kind)
    environment = {"MAXI_MLX_HOME": '/a"\nExecStartPre="/bin/x'}
    with pytest.raises(SetupError, match="has control characters"):
        service.install(Unit(command=UNIT.command, environment=environment, drain_timeout_s=5))
    assert not service.path.exists()


def test_systemd_again(home: Path) -> None:
    desk = Desk({SYSTEMD_SHOWS: RUNS})
    systemd = manager(desk, Systemd)
    systemd.install(UNIT)
    desk.commands.clear()
    systemd.install(UNIT)
    assert desk.changes == []
    assert desk.said[-1] == f"{systemd.path} says so already"
    systemd.install(OTHER)
    assert desk.changes == STARTS
    assert systemd.command() == list(OTHER.command)
    assert systemd.state().process_id == 77
    assert systemd.state().words == "active (running)"


def test_systemd_goes(home: Path) -> None:
    desk = Desk()
    systemd = manager(desk, Systemd)
    systemd.install(UNIT)
    desk.commands.clear()
    systemd.uninstall()
    assert desk.changes == [
        "systemctl --user disable --now maxi-mlx.service",
        "systemctl --user daemon-reload",
    ]
    assert not systemd.is_installed
    systemd.uninstall()
    assert len(desk.changes) == 2
    assert desk.said[-1] == f"Nothing to remove: there is no {systemd.path}"


class Launchctl(Desk):
    """As launchd does it: an agent that is booted out lingers for some looks."""

    LINGERS = 2

    def __init__(self) -> None:
        super().__init__()
        self.is_loaded = False
        self.num_looks_left = 0

    def run(self, command: Sequence[str]) -> Outcome:
        super().run(command)
        match command[1]:
            case "bootstrap":
                assert not self.is_loaded, "launchd refuses a second one"
                self.is_loaded = True
            case "bootout":
                self.num_looks_left = self.LINGERS
            case "print":
                if self.num_looks_left:
                    self.num_looks_left -= 1
                    self.is_loaded = self.num_looks_left > 0
                return LOADED if self.is_loaded else NOT_LOADED
        return Outcome(0, "")


LOADED = Outcome(0, "gui/501/maxi-mlx = {\n\tstate = running\n\tpid = 812\n}")
NOT_LOADED = Outcome(113, 'Could not find service "maxi-mlx"')


def test_launchd_agent(home: Path) -> None:
    desk = Launchctl()
    launchd = manager(desk, Launchd)
    launchd.install(UNIT)
    assert launchd.path == home / "Library/LaunchAgents/maxi-mlx.plist"
    agent = plistlib.loads(launchd.path.read_bytes())
    log = str(home / "Library/Logs/maxi-mlx.log")
    assert agent == {
        "Label": "maxi-mlx",
        "ProgramArguments": list(UNIT.command),
        "EnvironmentVariables": dict(UNIT.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 60,
        "ProcessType": "Interactive",
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    assert (home / "Library/Logs").is_dir()  # launchd makes no folder for it
    assert launchd.command() == list(UNIT.command)
    domain = f"gui/{os.getuid()}"
    assert desk.changes == [
        f"launchctl enable {domain}/maxi-mlx",
        f"launchctl bootstrap {domain} {launchd.path}",
    ]
    assert launchd.log_command(num_lines=5, follow=True) == ["tail", "-n", "5", "-F", log]


def test_launchd_again(home: Path) -> None:
    desk = Launchctl()
    launchd = manager(desk, Launchd)
    launchd.install(OTHER)
    launchd.install(OTHER)
    assert [line.split()[1] for line in desk.changes] == ["enable", "bootstrap"]
    assert (launchd.state().is_running, launchd.state().process_id) == (True, 812)
    desk.commands.clear()
    launchd.install(UNIT)
    assert [line.split()[1] for line in desk.changes] == ["bootout", "enable", "bootstrap"]
    desk.commands.clear()
    launchd.uninstall()
    assert desk.changes == [f"launchctl bootout gui/{os.getuid()}/maxi-mlx"]
    assert not launchd.is_installed
    assert not launchd.state().is_running


@pytest.mark.parametrize("kind", [Systemd, Launchd])
def test_a_step_that_fails(home: Path, kind: type[Manager]) -> None:
    desk = Desk(
        {
            "launchctl print": NOT_LOADED,
            "systemctl --user enable": Outcome(1, "Failed to connect\nto bus"),
            "launchctl bootstrap": Outcome(5, "Bootstrap failed: 5: Input/output error"),
        }
    )
    failing = manager(desk, kind)
    with pytest.raises(SetupError) as caught:
        failing.install(UNIT)
    assert failing.is_installed
    assert " failed: " in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith(f"The file is written; {kind.advice}")


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="systemd's commands")
FAKE = """#!/bin/sh
echo "$@" >> "$HOME/systemctl.log"
case "$*" in *show*) printf 'ActiveState=active\\nSubState=running\\nMainPID=5\\n';; esac
"""


@pytest.fixture
def service(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, with a systemctl that only writes down what it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(FAKE)
    (folder / "systemctl").chmod(0o755)

    def service(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{folder}:{os.environ['PATH']}", **extra}
        return run("service", *arguments, home=tmp_path, extra=variables)

    return service


@on_linux
@pytest.mark.slow
def test_from_install_to_uninstall(
    service: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    done = service(
        *("install", "--", "--port", "0", "--model-dir", str(tmp_path / "models")),
        MAXI_MLX_API_KEY="secret",
        MAXI_MLX_HOME=str(tmp_path / "own"),
        HF_HOME="$MAXI_MLX_HOME/../hub",
    )
    path = tmp_path / ".config/systemd/user/maxi-mlx.service"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Wrote {path}\n$ systemctl --user daemon-reload\n")
    assert "Not passed on to the service: MAXI_MLX_API_KEY." in done.stdout
    unit = path.read_text()
    assert "secret" not in unit
    assert f'"--port=0" "--model-dir={tmp_path / "models"}"\n' in unit
    assert f'Environment="MAXI_MLX_HOME={tmp_path / "own"}"\n' in unit
    assert f'Environment="HF_HOME={tmp_path / "hub"}"\n' in unit
    status = service("status")
    assert (status.returncode, status.stderr) == (0, "")
    assert "State   active (running), process 5\n" in status.stdout
    assert service("uninstall").returncode == 0
    assert not path.exists()
    gone = service("status")
    assert (gone.returncode, gone.stdout) == (2, "")
    assert gone.stderr.startswith("maxi-mlx: the service is not installed; `maxi-mlx service inst")


@on_linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--api-key", "secret"], "an API key in a service's command line; put it into a file"),
        (["--prot", "80"], "no such option '--prot'; did you mean '--port'?"),
        (["--port", "x"], 'flag --port: "x" is not a whole number from 0 to 65535'),
        (["--model-dir", "/none"], "flag --model-dir: /none does not exist"),
    ],
    ids=["key", "option", "value", "folder"],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    service: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    options: list[str],
    words: str,
) -> None:
    done = service("install", "--", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / ".config").exists()


@on_linux
@pytest.mark.slow
def test_without_systemd(tmp_path: Path) -> None:
    done = run("service", "install", "--", "--port", "0", home=tmp_path, extra={"PATH": "/none"})
    assert done.returncode == 2
    assert done.stderr.startswith("maxi-mlx: systemctl is not on this machine. The file is written")
    assert (tmp_path / ".config/systemd/user/maxi-mlx.service").is_file()
