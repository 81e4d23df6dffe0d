"""Which adapter goes over which model: each pair is a model of its own, ``MODEL:ADAPTER``.

Pure, but for the listing of the folders that adapters are in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from maxi_mlx.catalog.adapter_folders import CONFIG, AdapterFolder
from maxi_mlx.catalog.names import NameIndex, Naming, fold, printable
from maxi_mlx.core.models import ModelEntry

_WRITERS = ("language", "vision")
_NO_NAME = "latest"  # Ollama's clients write it behind names


@dataclass(frozen=True, slots=True)
class Pairs:
    """``pairs`` are of a model's place and an adapter; ``strays`` are sentences on adapters that
    go over no model that is here."""

    pairs: tuple[tuple[int, AdapterFolder], ...]
    strays: tuple[str, ...]


def adapter_folders(places: Iterable[Path]) -> Iterator[Path]:
    """The folders in ``places`` that may hold an adapter; a place may be one itself."""
    for place in places:
        if os.path.isfile(place / CONFIG):
            yield place
            continue
        try:
            names = sorted(os.listdir(place))
        except OSError:  # the project's own need not be there; of others the command has told
            continue
        yield from (place / name for name in names if os.path.isfile(place / name / CONFIG))


def pair(
    folders: Iterable[AdapterFolder],
    given: Mapping[str, str],
    entries: Sequence[ModelEntry],
    index: NameIndex,
) -> Pairs:
    """``given`` are the models that the owner names, by the adapters' names. Of two adapters of
    one name over one model, the first counts."""
    pairs: dict[tuple[int, str], AdapterFolder] = {}
    strays = []
    for folder in folders:
        adapter = folder.adapter
        wanted = given.get(adapter.name, folder.base)
        place = _place(wanted, entries, index) if wanted is not None else None
        if fold(adapter.name) == _NO_NAME:
            why = f"behind a model's name '{_NO_NAME}' means the model itself; rename the folder"
        elif place is not None:
            pairs.setdefault((place, fold(adapter.name)), folder)
            continue
        elif wanted is not None:
            why = f"it is for '{printable(wanted)}', which is not here"
        else:
            why = folder.problem or f"its {CONFIG} names none"
        strays.append(f"the adapter {printable(str(adapter.path))} goes over no model: {why}")
    return Pairs(tuple((place, folder) for (place, _), folder in pairs.items()), tuple(strays))


def _place(wanted: str, entries: Sequence[ModelEntry], index: NameIndex) -> int | None:
    place = index.find(wanted)
    if place is not None:
        return place
    # A folder that says nothing of an organisation may well be the organisation's model.
    place = index.find(wanted.rstrip("/").rpartition("/")[2])
    return place if place is not None and entries[place].org_name is None else None


def adapted_naming(base: Naming, folder: AdapterFolder) -> Naming:
    return replace(
        base,
        name=f"{base.name}:{folder.adapter.name}",
        paths=(),
        aliases=tuple(f"{alias}:{folder.adapter.name}" for alias in base.aliases),
        takes_tags=False,
    )


def adapted_entry(base: ModelEntry, folder: AdapterFolder) -> ModelEntry:
    """What ``base`` is with the adapter over it. Its own bytes are the adapter's alone."""
    adapter = folder.adapter
    problem = base.problem or folder.problem
    if problem is None and base.kind not in _WRITERS:
        problem = f"an adapter goes over a model that writes text, and {base.id} is none"
    if problem is None and base.adapter is not None:
        problem = f"{base.id} has an adapter by its settings already, and only one can be applied"
    return replace(
        base,
        id=f"{base.id}:{adapter.name}",
        org_name=base.org_name and f"{base.org_name}:{adapter.name}",
        weight_bytes=adapter.weight_bytes,
        created=max(base.created, adapter.changed_ns // 10**9),
        problem=problem,
        settings=replace(base.settings, aliases=(), is_pinned=False, adapter=None),
        adapter=adapter,
        base=base,
    )
