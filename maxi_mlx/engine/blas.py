"""Puts the system's OpenBLAS under MLX's CPU build on Linux.

MLX's Linux wheels link a reference BLAS that multiplies matrices some 25 times slower. Whatever
library is in the process's global scope first answers instead. Knows nothing of MLX itself.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import sys
from dataclasses import dataclass

# dlopen looks these up as the linker does (its cache, LD_LIBRARY_PATH). Fedora's bare libopenblas
# has no threads, so that its threaded one is asked for first.
_NAMES = ("libopenblasp.so.0", "libopenblas.so.0", "libopenblas.so")
_PATTERNS = (
    "/usr/lib/*-linux-gnu/openblas-pthread/libopenblas.so.0",
    "/usr/lib/*-linux-gnu/openblas-*/libopenblas.so.0",
    "/usr/lib64/libopenblas*.so.0",
    "/usr/lib/libopenblas*.so.0",
    "/opt/OpenBLAS/lib/libopenblas.so.0",
    "/usr/local/lib/libopenblas.so.0",
)
_PACKAGES = (  # program, how to install OpenBLAS, how to install a C++ compiler
    ("apt-get", "apt-get install libopenblas0-pthread", "apt-get install g++"),
    ("dnf", "dnf install openblas-threads", "dnf install gcc-c++"),
    ("pacman", "pacman -S openblas", "pacman -S gcc"),
    ("zypper", "zypper install libopenblas_pthreads0", "zypper install gcc-c++"),
)


@dataclass(frozen=True, slots=True)
class Blas:
    """The BLAS that MLX will use; ``path`` is None where it was in the process before us."""

    name: str
    path: str | None


def load_openblas() -> Blas | None:
    """Load it before MLX's library is; None where there is none, or where MLX brings its own."""
    if sys.platform != "linux":
        return None
    # Two threads of it on a busy machine wait for each other and are slower than one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    process = ctypes.CDLL(None)
    if hasattr(process, "cblas_sgemm"):  # by LD_PRELOAD, or loaded here before
        return Blas(_describe(process), None)
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "cblas_sgemm"):
            # Opening it again only moves its names into the global scope.
            return Blas(_describe(ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)), name)
    return None


def openblas_command() -> str:
    """How to install OpenBLAS with this machine's package manager."""
    return _package_command(1)


def compiler_command() -> str:
    """How to install the C++ compiler that MLX makes its CPU kernels with."""
    return _package_command(2)


def _package_command(column: int) -> str:
    for row in _PACKAGES:
        if shutil.which(row[0]):
            return row[column] if os.geteuid() == 0 else f"sudo {row[column]}"
    return _PACKAGES[0][column]


def _candidates() -> list[str]:
    return [*_NAMES, *(path for pattern in _PATTERNS for path in sorted(glob.glob(pattern)))]


def _describe(library: ctypes.CDLL) -> str:
    if not hasattr(library, "openblas_get_config"):
        return "the BLAS loaded before this program"
    library.openblas_get_config.restype = ctypes.c_char_p
    words = library.openblas_get_config().decode("ascii", "replace").split()
    num_threads = library.openblas_get_num_threads()
    return f"{' '.join(words[:2])}, {num_threads} thread{'' if num_threads == 1 else 's'}"
