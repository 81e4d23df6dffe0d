"""Whether what brings the eyes is installed. Imports nothing of it."""

from __future__ import annotations

import importlib.util

from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.installation import require_add_on

EXTRA = "vision"
_MODULES = ("mlx_vlm", "PIL", "requests")


def has_vision_packages() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in _MODULES)


def require_vision_packages(entry: ModelEntry) -> None:
    """Raises NotInstalled, with what to type. Looks for files."""
    require_add_on(EXTRA, _MODULES, what=f"Reading images with {entry.id}")
