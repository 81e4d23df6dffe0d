"""What machine a benchmark ran on, and how busy it was."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import msgspec

import maxi_mlx


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    processor: str
    num_cores: int
    memory_bytes: int
    system: str
    python: str
    maxi_mlx: str
    mlx: str
    mlx_lm: str
    backend: str
    blas: str | None


def describe_machine() -> Machine:
    """Imports MLX, once the BLAS is chosen that the servers choose."""
    from maxi_mlx.engine import device
    from maxi_mlx.engine.host_memory import host_memory

    device.prepare("auto")
    device.select()
    info = device.describe()
    return Machine(
        processor=_processor(),
        num_cores=os.cpu_count() or 0,
        memory_bytes=host_memory().total_bytes,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        maxi_mlx=maxi_mlx.__version__,
        mlx=metadata.version("mlx"),
        mlx_lm=metadata.version("mlx-lm"),
        backend=info.backend,
        blas=info.blas,
    )


def load_averages() -> tuple[float, ...]:
    """Programs that ran or waited for a processor: of the last minute, 5 and 15."""
    return tuple(round(value, 2) for value in os.getloadavg())


def machine_line(machine: Machine) -> str:
    parts = [
        f"{machine.processor}, {machine.num_cores} cores, {machine.memory_bytes / 2**30:.0f} GiB",
        machine.system,
        f"Python {machine.python}",
        f"maxi-mlx {machine.maxi_mlx}, mlx {machine.mlx} ({machine.backend}), "
        f"mlx-lm {machine.mlx_lm}",
    ]
    if machine.backend == "cpu":
        parts.append(machine.blas or "MLX's own BLAS")
    return "; ".join(parts)


def _processor() -> str:
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()
