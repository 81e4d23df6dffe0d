"""Where models are looked for: given folders, the project's own, the hub cache, LM Studio's.

Knows paths and the environment's names for them; does not know what a model folder looks like.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from maxi_mlx.catalog.model_files import BrokenFile, read_object

logger = logging.getLogger(__name__)

Layout = Literal["folders", "hub"]


@dataclass(frozen=True, slots=True)
class Root:
    """A folder to look in. ``source`` is what users are told about where a model was found."""

    path: Path
    source: str
    layout: Layout


def home_models_dir() -> Path:
    """The project's own folder, where `pull` puts models."""
    home = os.environ.get("MAXI_MLX_HOME") or "~/.maxi-mlx"
    return _absolute(home) / "models"


def default_adapter_dirs(adapter_dirs: Sequence[Path]) -> tuple[Path, ...]:
    """The given folders first, then the project's own."""
    folders = (*map(_absolute, adapter_dirs), home_models_dir().parent / "adapters")
    return tuple(dict.fromkeys(folders))


def default_roots(model_dirs: Sequence[Path]) -> tuple[Root, ...]:
    """The given folders first, so that their models win a shared name, then the usual places."""
    roots = [Root(_absolute(folder), str(folder), "folders") for folder in model_dirs]
    roots.append(Root(home_models_dir(), "maxi-mlx", "folders"))
    roots.append(Root(hub_cache(), "hub cache", "hub"))
    roots += [Root(folder, "LM Studio", "folders") for folder in _lm_studio_folders()]
    by_path: dict[Path, Root] = {}
    for root in roots:
        by_path.setdefault(root.path, root)
    return tuple(by_path.values())


def hub_cache() -> Path:
    """The same answer as huggingface_hub gives, without the cost of importing it."""
    environ = os.environ
    cache_home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    hub_home = environ.get("HF_HOME") or os.path.join(cache_home, "huggingface")
    legacy = environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(hub_home, "hub")
    return _absolute(os.path.expandvars(environ.get("HF_HUB_CACHE") or legacy))


def _lm_studio_folders() -> list[Path]:
    folders = [_absolute("~/.lmstudio/models"), _absolute("~/.cache/lm-studio/models")]
    settings = _absolute("~/.lmstudio/settings.json")
    if os.path.isfile(settings):  # and not where it may not be looked at
        try:
            moved = read_object(settings).get("downloadsFolder")
        except BrokenFile as error:
            logger.warning("LM Studio's %s %s: its choice of folder isn't known", settings, error)
        else:
            if isinstance(moved, str) and moved:
                folders.insert(0, _absolute(moved))
    return folders


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))
