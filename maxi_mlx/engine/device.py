"""The seam to the machine: the only file that asks for Metal, CUDA or the CPU by name.

``prepare`` runs before MLX is first imported, ``select`` on each thread that then uses it.
Knows nothing of models or requests.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Literal

from maxi_mlx.core.errors import EngineFailed, SetupError
from maxi_mlx.core.settings import Backend
from maxi_mlx.engine import installation
from maxi_mlx.engine.blas import Blas, load_openblas, openblas_command
from maxi_mlx.engine.host_memory import HostMemory, footprint_bytes, host_memory
from maxi_mlx.engine.memory_room import HostReading
from maxi_mlx.engine.status import MemoryStatus

if TYPE_CHECKING:
    from maxi_mlx.engine.installation import Installation

ActualBackend = Literal["metal", "cuda", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """``memory_bytes`` is what the device may hold in all; ``blas`` is what multiplies matrices on
    a CPU; ``advice`` are sentences on what would make this machine faster, with the command."""

    backend: ActualBackend
    name: str
    memory_bytes: int
    mlx_version: str
    blas: str | None
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatmulCheck:
    """A multiplication of two fp32 matrices of about 1024 x 1024 whose result is known."""

    seconds: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class _Prepared:
    backend: Backend
    blas: Blas | None


# Set by prepare, which gives the same result however often it runs.
_prepared = _Prepared("auto", None)
# MLX's peak before it was last set back. Only the device thread asks.
_earlier_peak_bytes = 0


def prepare(backend: Backend) -> None:
    """Get ready for the first import of MLX, or say which command to run so that it can be."""
    global _prepared
    found = installation.find_installation()
    _require_library(found)
    _require_backend(backend, found)
    uses_cuda = backend == "cuda" or (
        backend == "auto" and found.has_cuda and installation.has_nvidia_driver()
    )
    _prepared = _Prepared(backend, None if uses_cuda else load_openblas())


def select() -> None:
    """Make the backend that was prepared MLX's default device; before the first array."""
    try:
        import mlx.core as mx
    except ImportError as error:
        raise SetupError(f"MLX can't be loaded ({error}); `maxi-mlx doctor` says more") from error
    backend = _prepared.backend
    # MLX's CUDA build takes the GPU as its default even where there is none.
    has_gpu = mx.is_available(mx.gpu)
    if backend in ("metal", "cuda") and not has_gpu:
        raise SetupError(f"--backend {backend}: MLX finds no such GPU here; use --backend cpu")
    mx.set_default_device(mx.gpu if has_gpu and backend != "cpu" else mx.cpu)
    set_wired_limit()


def set_wired_limit() -> None:
    """Keep what the models use resident, so that macOS does not page it out between requests."""
    import mlx.core as mx

    if _actual_backend() == "metal" and _mac_release() >= (15,):  # older ones know no such limit
        mx.set_wired_limit(_total_bytes("metal"))


def describe() -> DeviceInfo:
    import mlx.core as mx

    backend = _actual_backend()
    return DeviceInfo(
        backend=backend,
        name=str(mx.device_info().get("device_name", platform.machine())),
        memory_bytes=_total_bytes(backend),
        mlx_version=metadata.version("mlx"),
        blas=_blas_name(backend),
        advice=_advice(backend),
    )


def available_bytes() -> int:
    """What may still be allocated, counting what MLX keeps of freed arrays to use again."""
    backend = _actual_backend()
    return _available_bytes(backend, host_memory() if backend != "cuda" else None)


def _available_bytes(backend: ActualBackend, host: HostMemory | None) -> int:
    """``host`` is None where a GPU has memory of its own."""
    import mlx.core as mx

    if host is None:
        return int(mx.device_info()["free_memory"]) + mx.get_cache_memory()
    of_host = host.available_bytes + mx.get_cache_memory()
    if backend == "metal":
        return min(max(0, _total_bytes(backend) - mx.get_active_memory()), of_host)
    return of_host


def read_host() -> HostReading:
    """What the machine and this process have. A GPU with memory of its own takes nothing of
    either, and its own figures stand in for them."""
    import mlx.core as mx

    backend = _actual_backend()
    active, cached = mx.get_active_memory(), mx.get_cache_memory()
    host = host_memory() if backend != "cuda" else None  # asked once: on a Mac it takes a process
    return HostReading(
        total_bytes=host.total_bytes if host else _total_bytes(backend),
        available_bytes=_available_bytes(backend, host),
        footprint_bytes=max(footprint_bytes() - cached, 0) if host else active,
        active_bytes=active,
    )


def transient_bytes(work: Callable[[], object]) -> int:
    """What MLX has while this is done, at the most, beyond what it had before."""
    global _earlier_peak_bytes
    import mlx.core as mx

    mx.synchronize()  # what others have under way is not this one's
    mx.clear_cache()  # a buffer that is used again may be larger than what is in it
    _earlier_peak_bytes = max(_earlier_peak_bytes, mx.get_peak_memory())
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    work()
    return max(mx.get_peak_memory() - before, 0)


def memory(limit_bytes: int) -> MemoryStatus:
    """MLX's figures, beside the limit that the engine keeps to."""
    import mlx.core as mx

    return MemoryStatus(
        active_bytes=mx.get_active_memory(),
        cache_bytes=mx.get_cache_memory(),
        peak_bytes=max(_earlier_peak_bytes, mx.get_peak_memory()),
        limit_bytes=limit_bytes,
    )


def is_allocation_failure(error: BaseException) -> bool:
    """Whether MLX had no memory for an array, by its words: it has no class for it."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and ("malloc" in words or "out of memory" in words or "unable to allocate" in words)
    )


def check_matmul() -> MatmulCheck:
    """Multiply small whole numbers, whose sums fp32 holds exactly, and check every row."""
    import mlx.core as mx
    import numpy as np

    rows, inner, columns = 1021, 1024, 1023  # odd ones, for the kernels' edges
    left = (np.arange(rows * inner, dtype=np.int64) * 7 % 11 - 5).reshape(rows, inner)
    right = (np.arange(inner * columns, dtype=np.int64) * 5 % 13 - 6).reshape(inner, columns)
    a, b = mx.array(left.astype(np.float32)), mx.array(right.astype(np.float32))
    mx.eval(a @ b)  # the first run may compile a kernel
    started = time.perf_counter()
    product = a @ b
    mx.eval(product)
    seconds = time.perf_counter() - started
    # The whole product times one vector, in integers: a wrong entry shows, at a thousandth of the
    # cost of multiplying again.
    weights = np.arange(1, columns + 1, dtype=np.int64) ** 2
    result = np.rint(np.array(product)).astype(np.int64) @ weights
    return MatmulCheck(seconds, bool((result == left @ (right @ weights)).all()))


def _actual_backend() -> ActualBackend:
    import mlx.core as mx

    if mx.default_device().type == mx.DeviceType.cpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


def _total_bytes(backend: ActualBackend) -> int:
    import mlx.core as mx

    if backend == "cpu":
        return host_memory().total_bytes
    key = "max_recommended_working_set_size" if backend == "metal" else "total_memory"
    size = mx.device_info().get(key)
    if size is None:
        raise EngineFailed(f"MLX does not say how much memory this {backend} device has ({key})")
    return int(size)


def _mac_release() -> tuple[int, ...]:
    return tuple(int(part) for part in platform.mac_ver()[0].split(".") if part.isdigit())


def _blas_name(backend: ActualBackend) -> str | None:
    if backend != "cpu":
        return None
    if sys.platform == "darwin":
        return "Accelerate"
    return _prepared.blas.name if _prepared.blas else None


def _advice(backend: ActualBackend) -> tuple[str, ...]:
    if sys.platform != "linux" or backend != "cpu":
        return ()
    advice = []
    if _prepared.blas is None:
        advice.append(
            f"MLX's own BLAS reads prompts some 25 times slower than OpenBLAS: {openblas_command()}"
        )
    if installation.has_nvidia_driver() and not installation.find_installation().has_cuda:
        extra = installation.cuda_extra()
        advice.append(f"this machine has an NVIDIA GPU that MLX can use: {_switch_to(extra)}")
    return tuple(advice)


def _require_library(found: Installation) -> None:
    command = installation.install_command(installation.library_extra())
    if found.mlx_version is None:
        raise SetupError(f"MLX is not installed in this environment; run: {command}")
    if not found.has_library:
        raise SetupError(
            f"mlx {found.mlx_version} is installed without its library (on Linux that is a "
            f"package of its own); run: {command}"
        )


def _require_backend(backend: Backend, found: Installation) -> None:
    if backend == "metal" and sys.platform != "darwin":
        raise SetupError("--backend metal needs a Mac; use --backend auto, cpu or cuda here")
    if backend != "cuda":
        return
    if sys.platform == "darwin":
        raise SetupError("--backend cuda needs an NVIDIA GPU under Linux; use --backend auto here")
    if not installation.has_nvidia_driver():
        raise SetupError(
            "--backend cuda: no NVIDIA GPU with its driver was found here; install the driver, or "
            "use --backend cpu"
        )
    if not found.has_cuda:
        raise SetupError(
            "--backend cuda: this environment has MLX's CPU build; run: "
            f"{_switch_to(installation.cuda_extra())}"
        )


def _switch_to(extra: str) -> str:
    # The two builds overwrite each other's library, so that the first has to go before.
    remove = installation.uninstall_command([installation.CPU_PACKAGE])
    return f"{remove} && {installation.install_command(extra)}"
