"""Programs of npm for tests: installed at one version, or the test is skipped with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def installed(package: str, *, version: str, program: str, folder: Path, variable: str) -> Path:
    """The path of ``program``. The environment's ``variable`` names a folder that it is, or is to
    be, installed in, instead of ``folder``."""
    given = os.environ.get(variable)
    folder = Path(given) if given else folder
    path = folder / "node_modules" / ".bin" / program
    if not path.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"{program} needs npm, which is not installed")
        try:
            subprocess.run(
                [npm, "install", "--prefix", str(folder), f"{package}@{version}"],
                check=True,
                capture_output=True,
                timeout=240,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm can't install {package}: {error}")
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    except OSError as error:
        pytest.skip(f"{program} does not run on this machine: {error}")
    if version not in shown.stdout:
        pytest.skip(f"{program} does not run on this machine: {shown.stdout}{shown.stderr}")
    return path
