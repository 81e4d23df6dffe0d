"""Runs ``maxi-mlx`` in a process of its own, as a user of an empty home directory."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 60


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without what would change the command's behaviour."""
    dropped = ("MAXI_MLX_", "HF_", "XDG_", "HUGGINGFACE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "HOME": str(home), "PYTHONWARNINGS": "default", **(extra or {})}


def run(
    *arguments: str, home: Path, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "maxi_mlx", *arguments],
        env=environment(home, extra),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@contextmanager
def serving(
    *arguments: str, home: Path, extra: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server on a free port; gives its process and the port, once it answers."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "maxi_mlx", "serve", "--port", str(port), *arguments],
        env=environment(home, extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until_up(process, port)
        yield process, port
    finally:
        process.kill()
        process.communicate()


def wait_until_up(process: subprocess.Popen[str], port: int) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            get(port, "/health")
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise AssertionError(f"the server did not come up: exit code {process.poll()}")


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
