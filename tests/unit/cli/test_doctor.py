"""What `doctor` finds on this machine, and in the faults that can be made here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maxi_mlx.cli import checkup
from maxi_mlx.core.settings import Settings
from tests.unit.cli.commands import free_port, run

DEVICE: dict[str, Any] = {
    "backend": "cpu",
    "name": "Some Chip",
    "memory_bytes": 16_000_000_000,
    "mlx_version": "0.32.4",
    "blas": "OpenBLAS 0.3, 1 thread",
    "advice": [],
}


def probe(*, is_right: bool = True, **device: Any) -> dict[str, Any]:
    return {
        "device": {**DEVICE, **device},
        "available_bytes": 8_000_000_000,
        "matmul": {"seconds": 0.0125, "is_right": is_right},
    }


@pytest.mark.slow
def test_on_this_machine(tmp_path: Path) -> None:
    port = str(free_port())
    result = run("doctor", "--json", "--port", port, home=tmp_path)
    checks = {check["name"]: check for check in json.loads(result.stdout)}
    assert result.stderr == ""
    assert result.returncode == 0
    assert checks["matmul"]["finding"].endswith("result right")
    assert checks["models"]["remedy"] == "maxi-mlx pull smollm2"
    assert checks[f"port {port}"]["finding"] == "free on 127.0.0.1"
    assert {"system", "mlx", "mlx-lm", "backend", "memory", "disk"} <= set(checks)


@pytest.mark.slow
def test_faults_show_with_what_to_do_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = run("doctor", "--port", port, "--model-dir", "/no/folder", home=tmp_path)
    assert result.returncode == 1
    assert "FAULT  models in /no/folder: no such folder\n" in result.stdout
    assert f"FAULT  port {port}: can't be taken on 127.0.0.1: " in result.stdout
    assert "→ stop what uses it" in result.stdout


@pytest.mark.slow
def test_wrong_configuration_is_a_finding(tmp_path: Path) -> None:
    extra = {"MAXI_MLX_STRATEGY": "fast", "MAXI_MLX_PORT": str(free_port())}
    result = run("doctor", "--json", home=tmp_path, extra=extra)
    first = json.loads(result.stdout)[0]
    assert (result.returncode, first["name"], first["state"]) == (1, "configuration", "fault")
    assert first["finding"].startswith('environment MAXI_MLX_STRATEGY: "fast" is not one of')


def states(checks: list[checkup.Check]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


def test_device_findings() -> None:
    good = states(checkup._device_findings(probe()))
    assert good == {"backend": "ok", "memory": "ok", "BLAS": "ok", "matmul": "ok"}
    wrong = states(checkup._device_findings(probe(is_right=False)))
    assert wrong["matmul"] == "fault"
    advice = ["MLX's own BLAS is slow: apt-get install it", "there is a GPU: pip install that"]
    slow = checkup._device_findings(probe(blas=None, advice=advice))
    assert [(c.finding, c.remedy) for c in slow if c.state == "warning"] == [
        ("MLX's own BLAS is slow", "apt-get install it"),
        ("there is a GPU", "pip install that"),
    ]
    on_metal = states(checkup._device_findings(probe(backend="metal", blas=None)))
    assert "BLAS" not in on_metal
    one_thread = next(c for c in checkup._device_findings(probe()) if c.name == "BLAS")
    assert one_thread.finding == ("OpenBLAS 0.3, 1 thread, as more are slower beside other work")


@pytest.mark.parametrize(
    ("error", "finding", "remedy"),
    [
        ("no such GPU", "no such GPU", None),
        ("MLX isn't here; run: pip install it", "MLX isn't here", "pip install it"),
        ("no such GPU; use --backend cpu", "no such GPU", "use --backend cpu"),
    ],
)
def test_a_refusal_of_the_device_has_its_remedy_apart(
    error: str, finding: str, remedy: str | None
) -> None:
    [check] = checkup._device_findings({"error": error})
    assert (check.state, check.finding, check.remedy) == ("fault", finding, remedy)


def test_a_home_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path / "file"))
    check = checkup.disk_check()
    assert (check.state, check.finding) == ("fault", f"{tmp_path / 'file'} is not a folder")


@pytest.mark.parametrize(
    ("code", "stderr", "reason"),
    [
        (-4, "", "SIGILL"),
        (1, "Traceback\nImportError: libmlx.so\n", "ImportError: libmlx.so"),
        (1, "", "no message"),
    ],
    ids=["signal", "exception", "silent"],
)
def test_a_probe_that_dies_is_a_finding(code: int, stderr: str, reason: str) -> None:
    check = checkup._crashed(code, stderr)
    assert (check.state, check.finding) == ("fault", f"MLX failed: {reason}")
    assert check.remedy is not None
    assert sys.executable in check.remedy


def test_two_builds_of_the_library() -> None:
    check = checkup._two_libraries(("mlx-cpu", "mlx-cuda-13"))
    assert check.state == "warning"
    assert check.finding.startswith("mlx-cpu and mlx-cuda-13 are both installed")
    assert check.remedy is not None
    assert "uninstall -y mlx-cpu mlx-cuda-13 && " in check.remedy


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MAXI_MLX_HOME", raising=False)
    broken = tmp_path / "given/broken"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{")
    settings = Settings(model_dirs=(tmp_path / "given", tmp_path / "gone"))
    found = {check.name: check for check in checkup.model_checks(settings)}
    assert found[f"models in {tmp_path / 'given'}"].finding == "1 found"
    assert found[f"models in {tmp_path / 'gone'}"].state == "fault"
    assert found["models"].finding == "none to serve"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_folders_without_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path / "home"))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    (tmp_path / "home").mkdir(mode=0o500)
    found = {c.name: c for c in checkup.model_checks(Settings(model_dirs=(closed,)))}
    assert found[f"models in {closed}"].finding == "can't be read"
    assert checkup.disk_check().finding.endswith("can't be written")
    closed.chmod(0o700)


def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXI_MLX_HOME", str(tmp_path / "not/there/yet"))
    monkeypatch.setattr(checkup, "LOW_DISK_BYTES", 0)
    assert checkup.disk_check().state == "ok"
    monkeypatch.setattr(checkup, "LOW_DISK_BYTES", 10**18)
    assert checkup.disk_check().state == "warning"


def test_port_that_we_have_ourselves() -> None:
    code = (
        "import http.server\n"
        "class Ours(http.server.BaseHTTPRequestHandler):\n"
        "    def version_string(self):\n"
        "        return 'maxi-mlx/0.1.0'\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Ours)\n"
        "print(server.server_port, flush=True)\n"
        "server.handle_request()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        check = checkup.port_check("127.0.0.1", port)
    finding = f"maxi-mlx is serving at http://127.0.0.1:{port}"
    assert (check.state, check.finding) == ("ok", finding)
