"""SmolLM2-135M-Instruct as `maxi-mlx pull smollm2` leaves it, and a server over it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxi_mlx.catalog.pull.embedded import pull_embedded
from maxi_mlx.catalog.pull.source import Precision
from maxi_mlx.cli.progress import progress_on


def pulled(home: Path, precision: Precision) -> Path:
    """The model's folder, fetched into a home of its own by this machine's pip."""
    with pytest.MonkeyPatch.context() as patch, progress_on(io.StringIO()) as progress:
        patch.setenv("MAXI_MLX_HOME", str(home))
        return pull_embedded(precision, progress)


@pytest.fixture(scope="session")
def smollm2_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MAXI_MLX_HOME that holds the float32 form."""
    home = tmp_path_factory.mktemp("smollm2")
    pulled(home, "float32")
    return home


@pytest.fixture(scope="session")
def float32_folder(smollm2_home: Path) -> Path:
    return smollm2_home / "models" / "SmolLM2-135M-Instruct"


@pytest.fixture(scope="session")
def smollm2_url(smollm2_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of `maxi-mlx serve` over it, run as a user runs it."""
    environment = os.environ | {
        "MAXI_MLX_HOME": str(smollm2_home),
        "HOME": str(tmp_path_factory.mktemp("home")),
    }
    log = tmp_path_factory.mktemp("log") / "serve.log"
    command = [sys.executable, "-m", "maxi_mlx", "serve", "--port", "0"]
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield address_in(log, server)
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert server.returncode == 0, log.read_text()


def address_in(log: Path, server: subprocess.Popen[bytes]) -> str:
    """The address that the banner names, once it does."""
    for _ in range(600):
        match = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        if match:
            return match[0]
        assert server.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())
