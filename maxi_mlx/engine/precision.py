"""Which form of a model's weights this machine computes with fastest, told without MLX."""

from __future__ import annotations

import platform
import sys

from maxi_mlx.catalog.pull.source import Precision
from maxi_mlx.engine import installation


def best_precision() -> Precision:
    """4-bit blocks where a GPU reads them; MLX's CPU build is faster with plain floats."""
    if sys.platform == "darwin":
        has_gpu = platform.machine() == "arm64"
    else:
        has_gpu = installation.find_installation().has_cuda and installation.has_nvidia_driver()
    return "4bit" if has_gpu else "float32"
