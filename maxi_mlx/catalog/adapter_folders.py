"""Reads LoRA folders in mlx-lm's form: ``adapter_config.json`` beside ``adapters.safetensors``.

Owns what is known of them; lives under the catalog's lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxi_mlx.catalog.folders import Stamp, is_settled, stamp_of
from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.weights import read_header
from maxi_mlx.core.models import Adapter

CONFIG = "adapter_config.json"
WEIGHTS = "adapters.safetensors"
_KINDS = ("lora", "dora", "full")
_PARAMETERS: Mapping[str, type | tuple[type, ...]] = {
    "rank": int,
    "scale": (int, float),
    "dropout": (int, float),
}


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """``base`` is the name of the model that it was trained on, by its own file."""

    adapter: Adapter
    base: str | None
    problem: str | None


class AdapterReader:
    """Reads a folder again only when its files have changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[Stamp, ...], AdapterFolder]] = {}

    def read_all(self, folders: Iterable[Path]) -> tuple[AdapterFolder, ...]:
        """Forgets all others."""
        wanted = tuple(folders)
        found = tuple(map(self.read, wanted))
        self._known = {path: self._known[path] for path in wanted if path in self._known}
        return found

    def read(self, folder: Path) -> AdapterFolder:
        states = _states(folder)
        stamps = tuple(map(stamp_of, states))
        known = self._known.get(folder)
        if known is not None and known[0] == stamps:
            return known[1]
        found = _read(folder, states)
        if all(map(is_settled, states)):
            self._known[folder] = stamps, found
        return found


def _states(folder: Path) -> list[os.stat_result]:
    """Of the files that there are."""
    states = []
    for name in (CONFIG, WEIGHTS):
        try:
            states.append(os.stat(folder / name))
        except OSError:
            continue
    return states


def _read(folder: Path, states: Iterable[os.stat_result]) -> AdapterFolder:
    config: Mapping[str, Any] = {}
    num_bytes = 0
    try:
        config = read_object(folder / CONFIG)
        problem = _problem(config)
    except BrokenFile as error:
        problem = f"{CONFIG} {error}"
    if problem is None:
        try:
            num_bytes = sum(read_header(folder / WEIGHTS).values())
        except BrokenFile as error:
            problem = f"{WEIGHTS} {error}"
    base = config.get("model", config.get("base_model_name_or_path"))
    return AdapterFolder(
        adapter=Adapter(
            name=printable(folder.name),
            path=folder,
            weight_bytes=num_bytes,
            changed_ns=max((state.st_mtime_ns for state in states), default=0),
        ),
        base=base if isinstance(base, str) else None,
        problem=problem,
    )


def _problem(config: Mapping[str, Any]) -> str | None:
    if "peft_type" in config:
        return "it is in PEFT's form, and mlx-lm's is served: adapters that `mlx_lm.lora` made"
    kind = config.get("fine_tune_type", "lora")
    if kind not in _KINDS:
        return f"its {CONFIG} says fine_tune_type {kind!r}, and known are {', '.join(_KINDS)}"
    if kind == "full":
        return None
    parameters = config.get("lora_parameters")
    if not isinstance(parameters, dict) or not isinstance(config.get("num_layers"), int):
        return f"its {CONFIG} says nothing of lora_parameters and num_layers, as mlx-lm's do"
    for name, types in _PARAMETERS.items():
        if not isinstance(parameters.get(name), types):
            number = "whole number" if types is int else "number"
            return f"its {CONFIG} has no {number} for lora_parameters.{name}"
    return None
