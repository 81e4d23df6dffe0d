"""Puts the system's OpenBLAS under MLX's CPU build on Linux.

MLX's Linux wheels link a reference BLAS that multiplies matrices some 25 times slower. Whatever
library is in the process's global scope first answers instead. Knows nothing of MLX itself.
"""

from __future__ import annotations

import _ctypes
import ctypes
import glob
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
# OpenBLAS has kernels for each kind of processor. On one that is newer than itself it takes those
# for a Pentium 4, at a fifth of the speed or less; those for Haswell run wherever AVX2 is.
_KERNELS_OF_LAST_RESORT = "Prescott"
_AVX2_KERNELS = "Haswell"
_CHOICE_OF_KERNELS = "OPENBLAS_CORETYPE"
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
            if hasattr(library, "cblas_sgemm"):
                # Opening it again only moves its names into the global scope, unless it was closed.
                with _kernels_for_this_processor(library):
                    return Blas(_describe(ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)), name)
        except OSError:
            continue
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


@contextmanager
def _kernels_for_this_processor(library: ctypes.CDLL) -> Iterator[None]:
    """Within it, the library is to be opened again. It chooses its kernels as it is loaded: where
    it chose badly it is closed first, and then told. Others who load one of their own, as numpy
    does, are not."""
    chosen = os.environ.get(_CHOICE_OF_KERNELS)
    if chosen or _kernels(library) != _KERNELS_OF_LAST_RESORT or not _has_avx2():
        yield
        return
    _ctypes.dlclose(library._handle)
    os.environ[_CHOICE_OF_KERNELS] = _AVX2_KERNELS
    try:
        yield
    finally:
        if chosen is None:
            del os.environ[_CHOICE_OF_KERNELS]
        else:
            os.environ[_CHOICE_OF_KERNELS] = chosen


def _kernels(library: ctypes.CDLL) -> str | None:
    return _text_of(library, "openblas_get_corename")


def _has_avx2() -> bool:
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        return False
    return found is not None and {"avx2", "fma"} <= set(found[1].split())


def _describe(library: ctypes.CDLL) -> str:
    config = _text_of(library, "openblas_get_config")
    if config is None:
        return "the BLAS loaded before this program"
    kernels = _kernels(library)
    num_threads = library.openblas_get_num_threads()
    parts = [
        " ".join(config.split()[:2]),
        *([f"{kernels} kernels"] if kernels else []),
        f"{num_threads} thread{'' if num_threads == 1 else 's'}",
    ]
    return ", ".join(parts)


def _text_of(library: ctypes.CDLL, name: str) -> str | None:
    """What one of OpenBLAS's functions says; None where there is no such function."""
    function = getattr(library, name, None)
    if function is None:
        return None
    function.restype = ctypes.c_char_p
    return str(function().decode("ascii", "replace"))
