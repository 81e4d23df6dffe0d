"""The seam to the machine: what it finds here, and what it says where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import maxi_mlx
from maxi_mlx.core.errors import SetupError
from maxi_mlx.engine import blas, device, installation
from maxi_mlx.engine.host_memory import _mac_available, host_memory, linux_memory
from maxi_mlx.engine.installation import Installation

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="about Linux")

CPU_BUILD = Installation("0.32.4", "0.32.2", ("mlx-cpu",), True)
CUDA_BUILD = Installation("0.32.4", "0.32.2", ("mlx-cuda-13",), True)

REPOSITORY = Path(maxi_mlx.__file__).parents[1]


@pytest.fixture(autouse=True)
def backend_put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test made of this process, the next one finds the usual backend."""
    yield
    monkeypatch.undo()
    device.prepare("auto")
    device.select()


def python(code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_importing_the_seam_imports_no_mlx() -> None:
    code = (
        "import sys; from maxi_mlx.engine import device; device.prepare('auto')\n"
        "print(sorted({'mlx.core', 'numpy', 'mlx_lm'} & set(sys.modules)))"
    )
    assert python(code).stdout == "[]\n"


def test_this_machine() -> None:
    device.prepare("cpu")
    device.select()
    info = device.describe()
    assert info.backend == "cpu"
    assert info.name
    assert info.mlx_version == installation.find_installation().mlx_version
    assert 0 < device.available_bytes() <= info.memory_bytes


def test_memory_tells_what_mlx_holds() -> None:
    import mlx.core as mx

    device.prepare("cpu")
    device.select()
    before = device.memory(5)
    array = mx.zeros((1024, 1024))
    mx.eval(array)
    after = device.memory(5)
    assert after.active_bytes - before.active_bytes >= array.nbytes
    assert after.peak_bytes >= after.active_bytes
    assert after.limit_bytes == 5


def test_matmul_is_right_and_a_wrong_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    device.prepare("cpu")
    device.select()
    assert device.check_matmul().is_right
    right = mx.array.__matmul__

    def off_by_one(a: mx.array, b: mx.array) -> mx.array:
        product = right(a, b)
        product[517, 1020] += 1
        return product

    monkeypatch.setattr(mx.array, "__matmul__", off_by_one)
    assert not device.check_matmul().is_right


@needs_linux
@pytest.mark.slow
def test_the_systems_blas_does_the_work() -> None:
    """Loaded by ``prepare``, it multiplies many times faster than the BLAS in MLX's wheel."""
    if blas.load_openblas() is None:
        pytest.skip("no OpenBLAS on this machine")
    code = (
        "import sys, time\n"
        "from maxi_mlx.engine import device\n"
        "if sys.argv[1] == 'with': device.prepare('cpu')\n"
        "import mlx.core as mx\n"
        "mx.set_default_device(mx.cpu)\n"
        "a, b = mx.random.normal((1024, 1024)), mx.random.normal((1024, 1024))\n"
        "mx.eval(a, b)\n"
        "def once():\n"
        "    start = time.process_time(); mx.eval(a @ b); return time.process_time() - start\n"
        "print(min(once() for _ in range(3)))\n"
    )
    times_s = {}
    for how in ("with", "without"):
        result = subprocess.run(
            [sys.executable, "-c", code, how],
            env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        times_s[how] = float(result.stdout)
    assert times_s["without"] / times_s["with"] > 5


@needs_linux
def test_openblas_threads_are_one_unless_the_user_says_so() -> None:
    code = (
        "import os; from maxi_mlx.engine import blas; found = blas.load_openblas()\n"
        "print(os.environ['OPENBLAS_NUM_THREADS'], found and found.name)"
    )
    if blas.load_openblas() is None:
        pytest.skip("no OpenBLAS on this machine")
    assert python(code, OPENBLAS_NUM_THREADS="2").stdout.endswith(", 2 threads\n")
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("1 OpenBLAS ")
    assert result.stdout.endswith(", 1 thread\n")


NEWER_THAN_OPENBLAS = """
import os
from maxi_mlx.engine import blas

of_library, asked = blas._kernels, []

def of_the_first(library):
    asked.append(library._handle)
    return "Prescott" if len(asked) == 1 else of_library(library)

blas._kernels = of_the_first
print(blas.load_openblas().name, os.environ.get("OPENBLAS_CORETYPE"))
print(len(asked) == 2)
from maxi_mlx.engine import device
device.prepare("cpu"), device.select()
print(device.check_matmul().is_right)
"""


@needs_linux
def test_a_processor_newer_than_openblas_gets_kernels_that_it_can_run() -> None:
    if blas.load_openblas() is None:
        pytest.skip("no OpenBLAS on this machine")
    if not blas._has_avx2():
        pytest.skip("a processor without AVX2")
    environment = {"OPENBLAS_CORETYPE": "", "LD_PRELOAD": ""}
    first, *others = python(NEWER_THAN_OPENBLAS, **environment).stdout.splitlines()
    # Others that choose by the variable, as numpy does, choose as they would.
    assert first.endswith(" thread ")
    assert ", Haswell kernels, " in first
    assert others == ["True", "True"]
    # Who has chosen kernels has them.
    environment["OPENBLAS_CORETYPE"] = "Nehalem"
    code = "from maxi_mlx.engine import blas; print(blas.load_openblas().name)"
    assert ", Nehalem kernels, " in python(code, **environment).stdout


@needs_linux
def test_without_a_real_blas_the_way_to_get_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "load_openblas", lambda: None)
    device.prepare("cpu")
    device.select()
    info = device.describe()
    assert info.blas is None
    assert info.advice[0].endswith(blas.openblas_command())


@needs_linux
def test_a_mac_brings_its_own_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert blas.load_openblas() is None


@needs_linux
@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("apt-get", "apt-get install libopenblas0-pthread"),
        ("dnf", "dnf install openblas-threads"),
        ("pacman", "pacman -S openblas"),
        ("zypper", "zypper install libopenblas_pthreads0"),
        ("none", "apt-get install libopenblas0-pthread"),
    ],
)
def test_how_to_get_openblas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, command: str
) -> None:
    (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert blas.openblas_command().removeprefix("sudo ") == command


@needs_linux
@pytest.mark.parametrize(
    ("has_mlx", "words"),
    [(True, "mlx 0.32.4 is installed without its library"), (False, "MLX is not installed")],
)
def test_mlx_without_its_library(tmp_path: Path, has_mlx: bool, words: str) -> None:
    """A bare environment (no site-packages) with what `pip install mlx` leaves on Linux."""
    if has_mlx:
        (tmp_path / "mlx").mkdir()
        (tmp_path / "mlx/core.py").write_text("raise ImportError('must not be imported')")
        (tmp_path / "mlx-0.32.4.dist-info").mkdir()
        metadata = "Metadata-Version: 2.1\nName: mlx\nVersion: 0.32.4\n"
        (tmp_path / "mlx-0.32.4.dist-info/METADATA").write_text(metadata)
    code = (
        "from maxi_mlx.core.errors import SetupError\n"
        "from maxi_mlx.engine import device\n"
        "try:\n    device.prepare('auto')\nexcept SetupError as error:\n    print(error.message)"
    )
    result = python(code, "-S", PYTHONPATH=f"{tmp_path}{os.pathsep}{REPOSITORY}")
    assert result.stderr == ""
    assert words in result.stdout
    extra = installation.library_extra()
    assert f"-m pip install -e '{REPOSITORY}[{extra}]'" in result.stdout


@needs_linux
@pytest.mark.parametrize(
    ("backend", "found", "has_driver", "words"),
    [
        ("metal", CPU_BUILD, False, "--backend metal needs a Mac"),
        ("cuda", CPU_BUILD, True, "this environment has MLX's CPU build; run: "),
        ("cuda", CUDA_BUILD, False, "no NVIDIA GPU with its driver was found here"),
        ("cuda", CPU_BUILD, False, "no NVIDIA GPU with its driver was found here"),
    ],
)
def test_backends_that_are_not_here(
    monkeypatch: pytest.MonkeyPatch,
    backend: device.Backend,
    found: Installation,
    has_driver: bool,
    words: str,
) -> None:
    monkeypatch.setattr(installation, "find_installation", lambda: found)
    monkeypatch.setattr(installation, "has_nvidia_driver", lambda: has_driver)
    with pytest.raises(SetupError) as caught:
        device.prepare(backend)
    assert words in caught.value.message


@needs_linux
@pytest.mark.parametrize(
    ("driver", "extra"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu", "cuda12"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Re", "cuda13"),
        ("", "cuda13"),
    ],
    ids=["570", "580-open", "unknown"],
)
def test_cuda_extra_follows_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, extra: str
) -> None:
    version = tmp_path / "version"
    version.write_text(driver)
    monkeypatch.setattr(installation, "_NVIDIA_DRIVER_FILES", (version,))
    assert installation.library_extra() == extra
    monkeypatch.setattr(installation, "_NVIDIA_DRIVER_FILES", (tmp_path / "none",))
    assert installation.library_extra() == "cpu"


def test_uv_environments_get_uvs_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
    assert installation.install_command("cpu") == (
        f"uv pip install --python {sys.executable} -e '{REPOSITORY}[cpu]'"
    )
    assert installation.uninstall_command(["mlx-cpu"]) == (
        f"uv pip uninstall --python {sys.executable} mlx-cpu"
    )


# -- memory ------------------------------------------------------------------------------------

MEMINFO = "MemTotal:  8000 kB\nMemFree: 100 kB\nMemAvailable:  6000 kB\n"
KB = 1024


def machine(root: Path, groups: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, "proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("groups", "files", "total", "available"),
    [
        pytest.param("0::/\n", {}, 8000 * KB, 6000 * KB, id="no-limit"),
        pytest.param(
            "0::/a/b\n",
            {
                f"{V2}/a/memory.max": f"{4000 * KB}\n",
                f"{V2}/a/memory.current": f"{3000 * KB}\n",
                f"{V2}/a/memory.stat": f"anon 5\ninactive_file {500 * KB}\n",
                f"{V2}/a/b/memory.max": "max\n",
                f"{V2}/a/b/memory.current": "5\n",
            },
            4000 * KB,
            1500 * KB,
            id="version-2-limit-of-a-parent",
        ),
        pytest.param(
            "0::/\n",
            {f"{V2}/memory.max": f"{2000 * KB}", f"{V2}/memory.current": f"{2500 * KB}"},
            2000 * KB,
            0,
            id="version-2-container-over-its-limit",
        ),
        pytest.param(
            "5:cpu:/x\n4:memory:/host/path\n",
            {
                f"{V1}/memory.limit_in_bytes": f"{3000 * KB}\n",
                f"{V1}/memory.usage_in_bytes": f"{1000 * KB}\n",
                f"{V1}/memory.stat": f"inactive_file 1\ntotal_inactive_file {10 * KB}\n",
            },
            3000 * KB,
            2010 * KB,
            id="version-1-container",
        ),
        pytest.param(
            "4:memory:/\n",
            {
                f"{V1}/memory.limit_in_bytes": "9223372036854771712",
                f"{V1}/memory.usage_in_bytes": "5",
            },
            8000 * KB,
            6000 * KB,
            id="version-1-no-limit",
        ),
    ],
)
def test_linux_memory(
    tmp_path: Path, groups: str, files: dict[str, str], total: int, available: int
) -> None:
    memory = linux_memory(machine(tmp_path, groups, files))
    assert (memory.total_bytes, memory.available_bytes) == (total, available)


def test_memory_of_this_machine() -> None:
    memory = host_memory()
    assert 0 < memory.available_bytes <= memory.total_bytes


def test_memory_of_a_mac() -> None:
    text = (
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
        "Pages free:                               10000.\n"
        "Pages active:                            200000.\n"
        "Pages inactive:                            3000.\n"
        "Pages speculative:                          200.\n"
        "Pages wired down:                         90000.\n"
        "Pages purgeable:                             10.\n"
    )
    assert _mac_available(text) == 16384 * 13210


def test_what_work_takes_for_a_moment_is_measured_and_the_peak_is_kept() -> None:
    import mlx.core as mx

    held = mx.zeros(1000)
    mx.eval(held)
    mx.eval(mx.ones(1_000_000) + 1)  # a peak from before
    before = device.memory(0).peak_bytes

    def work() -> None:
        mx.eval(mx.ones(100_000) + held.sum())

    assert 400_000 <= device.transient_bytes(work) <= 1_000_000
    assert device.memory(0).peak_bytes >= before >= 4_000_000
