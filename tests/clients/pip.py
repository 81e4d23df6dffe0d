"""Python programs and libraries for tests, each set in an environment of its own.

The environment sees the packages of ours, so that only what it needs besides, or in another
version, is installed: seconds instead of a minute.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

MARK = "installed.txt"  # which packages an environment was made for; the last thing that is made


def installed(folder: Path, *packages: str) -> Path:
    """The folder of the environment's programs. What is there already stays."""
    programs = folder / "bin"
    mark = folder / MARK
    if not mark.exists() or mark.read_text().split() != list(packages):
        try:
            _install(folder, packages)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"pip can't install {', '.join(packages)}: {error}")
        mark.write_text("\n".join(packages))
    return programs


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder))
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    shown = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60)
    site = Path(shown.stdout.strip())
    (site / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python))
    _run(*pip, "install", "--no-compile", "--no-warn-conflicts", *packages)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=240)
