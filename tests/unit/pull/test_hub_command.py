"""`maxi-mlx pull org/name` in a process of its own: what it says, and a cut in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hub import FakeHub, files_of
from tests.unit.catalog.folders import TENSORS, write_model
from tests.unit.cli.commands import environment, run

pytestmark = pytest.mark.slow

NAME = "org/Tiny"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    tensors = {**TENSORS, "model.norm.weight": 3_000_000}
    return files_of(write_model(tmp_path / "files", tensors=tensors))


def test_a_pull_that_is_killed_goes_on_where_it_was(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with FakeHub({NAME: files}, stall_at=2_000_000) as hub:
        command = [sys.executable, "-m", "maxi_mlx", "pull", NAME, "--from", hub.url]
        with subprocess.Popen(
            command,
            env=environment(home),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert hub.stalled.wait(60)
            parts = list(home.rglob("*.incomplete"))
            while parts[0].stat().st_size < 1_900_000:
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        kept = parts[0].stat().st_size
        hub.stall_at = None
        hub.asked.clear()
        result = run("pull", NAME, home=home, extra={"HF_ENDPOINT": hub.url})
        assert hub.fetched == [f"model.safetensors bytes={kept}-"]
        folder = home / ".cache/huggingface/hub/models--org--Tiny/snapshots" / ("c" * 40)
        assert result.stdout == f"{NAME} is in {folder}\nServe it: maxi-mlx serve --model {NAME}\n"
        assert "of them are here already)" in result.stderr
        # A pipe gets no bar.
        assert "\r" not in result.stderr
        assert "\x1b" not in result.stderr
        again = run("pull", f"hf.co/{NAME}", "--from", hub.url, home=home)
        assert again.stdout.startswith(f"{NAME} is there already: {folder}\n")
    gone = run("pull", NAME, "--from", hub.url, home=home)
    assert gone.returncode == 2
    assert gone.stderr.startswith(f"maxi-mlx: {NAME} can't be fetched: {hub.url} can't be reached")
    assert gone.stderr.count("\n") == 1


def test_ctrl_c_is_one_line(tmp_path: Path, files: dict[str, bytes]) -> None:
    with FakeHub({NAME: files}, stall_at=2_000_000) as hub:
        with subprocess.Popen(
            [sys.executable, "-m", "maxi_mlx", "pull", NAME, "--from", hub.url],
            env=environment(tmp_path),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert hub.stalled.wait(60)
            os.kill(process.pid, signal.SIGINT)
            assert process.stderr is not None
            assert process.stderr.read().splitlines()[-1] == "stopped; run it again to go on"
        assert process.returncode == 130


@pytest.mark.parametrize("url", ["localhost:1", "http://[::1", "http://a:99999"])
def test_wrong_mirror(tmp_path: Path, url: str) -> None:
    result = run("pull", NAME, "--from", url, home=tmp_path)
    assert result.returncode == 2
    assert f"flag --from: '{url}' is no address such as" in result.stderr
