"""How much memory this machine has, and how much of it is free, without MLX.

Knows Linux (with the limits of the control groups that containers run in) and macOS.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostMemory:
    """``available_bytes`` may be taken without pushing other programs out to disk."""

    total_bytes: int
    available_bytes: int


def host_memory() -> HostMemory:
    if sys.platform == "darwin":
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return HostMemory(total, min(total, _mac_available(_vm_stat())))
    return linux_memory(Path("/"))


def footprint_bytes() -> int:
    """What this process has taken of the memory, files that it has mapped apart."""
    if sys.platform == "darwin":
        return _mac_footprint()
    status = _read(Path("/proc/self/status"))
    sizes = re.findall(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", status, re.M)
    return sum(map(int, sizes)) * 1024


def linux_memory(root: Path) -> HostMemory:
    """The smallest of what the kernel and each control group on the way up allow."""
    meminfo = dict(
        re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB", _read(root / "proc/meminfo"), re.M)
    )
    total = int(meminfo["MemTotal"]) * 1024
    available = int(meminfo["MemAvailable"]) * 1024
    for limit, free in _group_limits(root):
        total = min(total, limit)
        available = min(available, free)
    return HostMemory(total, max(0, available))


def _group_limits(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, free) of every control group this process is in that has a limit."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2, one tree for everything
            base = root / "sys/fs/cgroup"
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # In a container the path may be the host's: folders missing here are passed over, and the
        # base itself then is the container's group.
        parts = Path(path.lstrip("/")).parts
        for depth in range(len(parts), -1, -1):
            yield from _group_limit(base.joinpath(*parts[:depth]), names)


def _group_limit(group: Path, names: tuple[str, str, str]) -> Iterator[tuple[int, int]]:
    limit_file, usage_file, inactive_name = names
    limit = _read(group / limit_file).strip()
    usage = _read(group / usage_file).strip()
    if not (limit.isdigit() and usage.isdigit()):  # "max", or no such group here
        return
    # Pages of files that nobody touched lately are given back when memory runs short.
    inactive = re.search(rf"^{inactive_name} (\d+)$", _read(group / "memory.stat"), re.M)
    yield int(limit), int(limit) - int(usage) + (int(inactive.group(1)) if inactive else 0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # absent on this kernel, or hidden by the container: it sets no limit
        return ""


def _vm_stat() -> str:
    return subprocess.run(["/usr/bin/vm_stat"], capture_output=True, text=True, check=True).stdout


def _mac_available(vm_stat: str) -> int:
    page_bytes = int(re.findall(r"page size of (\d+) bytes", vm_stat)[0])
    pages = dict(
        re.findall(r"^Pages (free|inactive|speculative|purgeable):\s+(\d+)", vm_stat, re.M)
    )
    return page_bytes * sum(map(int, pages.values()))


_FOOTPRINT_PLACE = 72  # of ri_phys_footprint in rusage_info_v0, behind a UUID and seven counts
_USAGE_BYTES = 96


def _mac_footprint() -> int:
    """What Activity Monitor calls memory: Metal's buffers are in it."""
    usage = ctypes.create_string_buffer(_USAGE_BYTES)
    if ctypes.CDLL("/usr/lib/libproc.dylib").proc_pid_rusage(os.getpid(), 0, usage):
        return 0  # it sets no bound then
    return int.from_bytes(usage.raw[_FOOTPRINT_PLACE : _FOOTPRINT_PLACE + 8], "little")
