"""What `doctor` looks at: one function a check, each with a finding and what to do about it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.roots import default_roots, home_models_dir
from maxi_mlx.cli.terminal import size_text
from maxi_mlx.core.errors import MaxiError
from maxi_mlx.core.settings import Backend, Settings
from maxi_mlx.engine import blas, device, installation
from maxi_mlx.server.address import served_at

State = Literal["ok", "warning", "fault"]

PROBE_TIMEOUT_S = 120
LOW_DISK_BYTES = 2_000_000_000
FIRST_MACOS = (14,)


@dataclass(frozen=True, slots=True)
class Check:
    """A ``fault`` keeps the server from serving; a ``warning`` makes it slower or poorer."""

    name: str
    state: State
    finding: str
    remedy: str | None = None


def refusal(name: str, message: str) -> Check:
    """A fault out of an error's message, whose last part says what to do."""
    finding, separator, remedy = message.rpartition("; ")
    if not separator:
        return Check(name, "fault", message)
    return Check(name, "fault", finding, remedy.removeprefix("run: "))


def machine_checks(backend: Backend) -> list[Check]:
    return [*system_checks(), *package_checks(), *device_checks(backend), *compiler_checks()]


def system_checks() -> list[Check]:
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    python = f"Python {platform.python_version()} on {system}"
    if sys.platform != "darwin":
        return [Check("system", "ok", python)]
    release = tuple(int(part) for part in platform.mac_ver()[0].split(".") if part.isdigit())
    if platform.machine() != "arm64":
        remedy = "on Apple silicon install a native (arm64) Python; MLX has no build for Intel"
        return [Check("system", "fault", python, remedy)]
    if release < FIRST_MACOS:
        return [Check("system", "fault", python, "MLX needs macOS 14 or later")]
    return [Check("system", "ok", python)]


def package_checks() -> list[Check]:
    """The versions of mlx and mlx-lm against those this release was made for."""
    from packaging.requirements import Requirement

    required = [Requirement(line) for line in metadata.requires("maxi-mlx") or ()]
    wanted = {r.name: r.specifier for r in required if r.name in ("mlx", "mlx-lm") and not r.extras}
    found = installation.find_installation()
    checks = []
    for name, version in (("mlx", found.mlx_version), ("mlx-lm", found.mlx_lm_version)):
        command = installation.install_command(installation.library_extra())
        if version is None:
            checks.append(Check(name, "fault", "not installed", command))
        elif not wanted[name].contains(version, prereleases=True):
            finding = f"{version}, but this release needs {wanted[name]}"
            checks.append(Check(name, "fault", finding, command))
        else:
            checks.append(Check(name, "ok", version))
    if found.has_cuda and installation.CPU_PACKAGE in found.libraries:
        checks.append(_two_libraries(found.libraries))
    return checks


def _two_libraries(libraries: Sequence[str]) -> Check:
    extra = installation.library_extra()
    remove = installation.uninstall_command(libraries)
    return Check(
        "mlx libraries",
        "warning",
        f"{' and '.join(libraries)} are both installed and overwrite each other's files",
        f"{remove} && {installation.install_command(extra)}",
    )


def device_checks(backend: Backend) -> list[Check]:
    """What MLX says in a process of its own, as a broken library can take its process with it."""
    code = "import sys; from maxi_mlx.cli.checkup import print_probe; print_probe(sys.argv[1])"
    try:
        probe = subprocess.run(
            [sys.executable, "-c", code, backend],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        remedy = "try `maxi-mlx serve --backend cpu`; reinstall MLX"
        return [Check("device", "fault", f"MLX did not answer in {PROBE_TIMEOUT_S} s", remedy)]
    if probe.returncode:
        return [_crashed(probe.returncode, probe.stderr)]
    return _device_findings(json.loads(probe.stdout))


def print_probe(backend: Backend) -> None:
    """Runs in the child: what this machine's device is, and whether it multiplies right."""
    try:
        device.prepare(backend)
        device.select()
        answer: dict[str, Any] = {
            "device": asdict(device.describe()),
            "available_bytes": device.available_bytes(),
            "matmul": asdict(device.check_matmul()),
        }
    except MaxiError as error:
        answer = {"error": error.message}
    print(json.dumps(answer))  # noqa: T201 - the parent reads it


def _crashed(code: int, stderr: str) -> Check:
    last_line = (stderr.strip().splitlines() or ["no message"])[-1]
    reason = signal.Signals(-code).name if code < 0 else last_line
    command = installation.install_command(installation.library_extra())
    return Check("device", "fault", f"MLX failed: {reason}", f"reinstall it: {command}")


def _device_findings(probe: dict[str, Any]) -> list[Check]:
    if "error" in probe:
        return [refusal("device", probe["error"])]
    info, matmul = probe["device"], probe["matmul"]
    total, available = size_text(info["memory_bytes"]), size_text(probe["available_bytes"])
    checks = [
        Check("backend", "ok", f"{info['backend']}, {info['name']}"),
        Check("memory", "ok", f"{total}, {available} of it free"),
    ]
    if info["backend"] == "cpu":
        checks.append(_blas_check(info["blas"]))
    for advice in info["advice"]:
        finding, _, command = advice.partition(": ")
        checks.append(Check("speed", "warning", finding, command))
    took = f"1024 x 1024 in {matmul['seconds'] * 1000:.1f} ms"
    if matmul["is_right"]:
        checks.append(Check("matmul", "ok", f"{took}, result right"))
    else:
        remedy = "reinstall MLX, and on Linux try another BLAS (OPENBLAS_CORETYPE=Haswell)"
        checks.append(Check("matmul", "fault", f"{took}, but the result is WRONG", remedy))
    return checks


def _blas_check(name: str | None) -> Check:
    if name is None:
        return Check("BLAS", "ok", "MLX's own")
    why = ", as more are slower beside other work" if name.endswith(" 1 thread") else ""
    return Check("BLAS", "ok", f"{name}{why}")


def compiler_checks() -> list[Check]:
    if sys.platform != "linux":
        return []
    path = shutil.which("g++")
    if path:
        return [Check("g++", "ok", path)]
    finding = "not found; MLX compiles CPU kernels with it, and is slower without"
    return [Check("g++", "warning", finding, blas.compiler_command())]


def model_checks(settings: Settings) -> list[Check]:
    roots = default_roots(settings.model_dirs)
    given = set(settings.model_dirs)
    entries = Catalog(roots).entries()
    checks = []
    for root in roots:
        name = f"models in {root.path}"
        num_here = sum(entry.path.is_relative_to(root.path) for entry in entries)
        if not os.path.exists(root.path):  # Path.exists raises without rights above it
            if root.path in given:
                checks.append(Check(name, "fault", "no such folder", "make it, or name another"))
        elif not os.access(root.path, os.R_OK | os.X_OK):
            state: State = "fault" if root.path in given else "warning"
            checks.append(Check(name, state, "can't be read", f"chmod u+rx '{root.path}'"))
        else:
            checks.append(Check(name, "ok", f"{num_here} found"))
    num_broken = sum(entry.problem is not None for entry in entries)
    if num_broken == len(entries):
        checks.append(Check("models", "warning", "none to serve", "maxi-mlx pull smollm2"))
    elif num_broken:
        finding = f"{num_broken} of {len(entries)} can't be served"
        checks.append(Check("models", "warning", finding, "`maxi-mlx list` says why"))
    return checks


def disk_check() -> Check:
    folder = home_models_dir()
    existing = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not os.path.isdir(existing):
        return Check("disk", "fault", f"{existing} is not a folder", "set MAXI_MLX_HOME to one")
    free_bytes = shutil.disk_usage(existing).free
    finding = f"{size_text(free_bytes)} free for models in {folder}"
    if not os.access(existing, os.W_OK):
        remedy = f"make {existing} writable, or set MAXI_MLX_HOME to another folder"
        return Check("disk", "warning", f"{folder} can't be written", remedy)
    if free_bytes < LOW_DISK_BYTES:
        return Check("disk", "warning", finding, "free some, or set MAXI_MLX_HOME elsewhere")
    return Check("disk", "ok", finding)


def port_check(host: str, port: int) -> Check:
    name = f"port {port}"
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(*address[:3]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address[4])
    except OSError as error:
        if served := served_at(host, port):
            return Check(name, "ok", f"maxi-mlx is serving at {served}")
        remedy = f"stop what uses it (Ollama has 11434 too), or serve on --port {port + 1}"
        return Check(name, "fault", f"can't be taken on {host}: {error.strerror}", remedy)
    return Check(name, "ok", f"free on {host}")


def config_file_check(settings: Settings) -> Check | None:
    files = {source for source in settings.sources.values() if source.startswith("file ")}
    if not files:
        return None
    return Check("configuration", "ok", str(Path(files.pop().removeprefix("file "))))
