"""Which parts of MLX are installed here, found without importing any, and how to get the rest."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import maxi_mlx
from maxi_mlx.core.errors import NotInstalled

# Both carry mlx/lib/libmlx.so, so that the one installed later overwrites the other.
CPU_PACKAGE = "mlx-cpu"
CUDA_PACKAGES = ("mlx-cuda-12", "mlx-cuda-13", "mlx-cuda")

_NVIDIA_DRIVER_FILES = (Path("/proc/driver/nvidia/version"), Path("/usr/lib/wsl/lib/libcuda.so.1"))
_FIRST_CUDA_13_DRIVER = 580


@dataclass(frozen=True, slots=True)
class Installation:
    """``mlx_version`` is None without MLX; ``libraries`` are the packages that bring its library,
    and ``has_library`` says whether the file is really there."""

    mlx_version: str | None
    mlx_lm_version: str | None
    libraries: tuple[str, ...]
    has_library: bool

    @property
    def has_cuda(self) -> bool:
        return any(name in CUDA_PACKAGES for name in self.libraries)


def find_installation() -> Installation:
    names = (CPU_PACKAGE, *CUDA_PACKAGES)
    return Installation(
        mlx_version=_version("mlx"),
        mlx_lm_version=_version("mlx-lm"),
        libraries=tuple(name for name in names if _version(name) is not None),
        has_library=_has_library(),
    )


def install_command(extra: str | None) -> str:
    """What to type to get MLX with the library ``extra`` (cpu, cuda12, cuda13) brings, here."""
    brackets = f"[{extra}]" if extra else ""
    clone = Path(maxi_mlx.__file__).resolve().parents[1]
    if (clone / "pyproject.toml").is_file():
        what = f"-e '{clone}{brackets}'"
    else:
        what = f"'mlx{brackets}=={_version('mlx') or '0.32.*'}'"
    return f"{installer()} {what}"


def require_add_on(extra: str, modules: Iterable[str], *, what: str) -> None:
    """Raises NotInstalled, with what to type, where one of an extra's modules isn't there."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalled(
            f"{what} needs a package that isn't installed in the server's environment "
            f"({', '.join(missing)}). Run {_add_on_command(extra)}, and start the server again."
        )


# mlx-whisper names torch, gigabytes on Linux, which nothing imports while it runs: it comes
# without its dependencies, and those it has use for come by this other extra.
_WHISPER_PARTS = "audio-parts"
_WHISPER = "--no-deps 'mlx-whisper>=0.4.3,<0.5'"


def _add_on_command(extra: str) -> str:
    if extra == "audio":
        return f"{_add_on_command(_WHISPER_PARTS)} && {installer()} {_WHISPER}"
    clone = Path(maxi_mlx.__file__).resolve().parents[1]
    if (clone / "pyproject.toml").is_file():
        return f"{installer()} -e '{clone}[{extra}]'"
    return f"{installer()} 'maxi-mlx[{extra}]'"


def installer() -> str:
    """pip's install command for this very environment, or uv's where uv made it."""
    settings = Path(sys.prefix) / "pyvenv.cfg"
    made_by_uv = settings.is_file() and re.search(r"^uv\s*=", settings.read_text(), re.M)
    if made_by_uv:
        return f"uv pip install --python {sys.executable}"
    return f"{sys.executable} -m pip install"


def uninstall_command(packages: Iterable[str]) -> str:
    """How to take packages out of this very environment."""
    pip = installer().replace(" install", " uninstall", 1)
    return f"{pip}{'' if pip.startswith('uv ') else ' -y'} {' '.join(packages)}"


def library_extra() -> str | None:
    """The extra of this project that brings the MLX library that fits this machine."""
    if sys.platform == "darwin":
        return None  # MLX's own package has everything there
    if not has_nvidia_driver():
        return "cpu"
    return cuda_extra()


def cuda_extra() -> str:
    version = _NVIDIA_DRIVER_FILES[0]
    text = version.read_text() if version.is_file() else ""
    driver = re.search(r"Kernel Module\D*(\d+)\.", text)
    return "cuda12" if driver and int(driver.group(1)) < _FIRST_CUDA_13_DRIVER else "cuda13"


def has_nvidia_driver() -> bool:
    return any(path.is_file() for path in _NVIDIA_DRIVER_FILES)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _has_library() -> bool:
    spec = importlib.util.find_spec("mlx")  # a namespace package: nothing of it is run
    if spec is None or sys.platform == "darwin":
        return spec is not None
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    # Wheels keep it beside the package, conda in the environment's own lib.
    return any((folder / "lib/libmlx.so").is_file() for folder in (*folders, Path(sys.prefix)))
