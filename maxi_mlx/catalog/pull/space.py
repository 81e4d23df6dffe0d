"""Whether the disks have room for a download, before it begins."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from maxi_mlx.core.errors import SetupError

SPARE_BYTES = 64_000_000  # left free on each disk


def check_space(needs: Sequence[tuple[Path, int]], *, remedy: str) -> None:
    """Raises SetupError where a disk has less room than is needed of it. ``remedy`` is what a
    user can do but make room."""
    by_disk: dict[int, int] = defaultdict(int)
    for path, num_bytes in needs:
        disk = path.stat().st_dev
        by_disk[disk] += num_bytes
        needed, free = by_disk[disk] + SPARE_BYTES, shutil.disk_usage(path).free
        if free < needed:
            raise SetupError(
                f"Not enough room on the disk of {path}: {needed / 1e6:.0f} MB are needed for the "
                f"download and the model, {free / 1e6:.0f} MB are free. Make room, or {remedy}."
            )
