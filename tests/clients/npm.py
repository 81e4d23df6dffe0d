"""Programs and packages of npm for tests: installed at one version, or the test is skipped with the
reason."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest


def installed(folder: Path, *packages: str, omit_optional: bool = False) -> Path:
    """Where the packages are, each named ``NAME@VERSION``: what is there already stays."""
    modules = folder / "node_modules"
    if not all(_is_there(modules, package) for package in packages):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("this client needs npm, which is not installed")
        more = ["--omit=optional", "--ignore-scripts"] if omit_optional else []
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        try:
            subprocess.run(
                [*command, *more, *packages], check=True, capture_output=True, timeout=240
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm can't install {', '.join(packages)}: {error}")
    return modules


def program(folder: Path, package: str, name: str, *, omit_optional: bool = False) -> Path:
    """The path of the program that the package brings."""
    return installed(folder, package, omit_optional=omit_optional) / ".bin" / name


def _is_there(modules: Path, package: str) -> bool:
    name, _, version = package.rpartition("@")
    try:
        return bool(json.loads((modules / name / "package.json").read_text())["version"] == version)
    except FileNotFoundError:
        return False
