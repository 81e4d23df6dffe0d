"""The catalog: every model under the roots, kept up to date, found by any of its names.

Owns what is known of the folders; any thread may ask, a lock lets in one at a time. Blocks on the
file system. Does not know what serves a model.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from maxi_mlx.catalog.adapter_folders import AdapterFolder, AdapterReader
from maxi_mlx.catalog.adapter_models import (
    adapted_entry,
    adapted_naming,
    adapter_folders,
    pair,
)
from maxi_mlx.catalog.classification import Classification, classify, files_read
from maxi_mlx.catalog.copies import Copies
from maxi_mlx.catalog.folders import FolderReader, Stamp, is_settled, stamp_of
from maxi_mlx.catalog.names import NameIndex, Naming, assign_ids, printable, without_latest
from maxi_mlx.catalog.owner_settings import Misfit, fit, with_settings
from maxi_mlx.catalog.places import Place, Sighting, look_again, sightings
from maxi_mlx.catalog.roots import Root, default_roots, home_models_dir
from maxi_mlx.core.errors import ModelNotFound
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.models import ModelEntry

logger = logging.getLogger(__name__)

__all__ = ["Catalog", "Root", "default_roots", "home_models_dir"]


@dataclass(frozen=True, slots=True)
class _State:
    """A folder's state, as far as its classification goes: equal states classify alike."""

    files: frozenset[str]
    folders: tuple[str, ...]
    dangling: frozenset[str]
    num_partial: int
    stamps: tuple[Stamp | None, ...]


@dataclass(frozen=True, slots=True)
class _Record:
    """What was found at one place. ``others`` lead to the same folder."""

    place: Place
    state: _State
    classification: Classification | None
    others: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scanned:
    """What an inventory is made of."""

    models: tuple[_Record, ...]
    own_adapters: tuple[AdapterFolder, ...]
    adapters: tuple[AdapterFolder, ...]


@dataclass(frozen=True, slots=True)
class _Inventory:
    """The result of one scan. The first three run in step; a model with an adapter over it has
    its base's record."""

    records: tuple[_Record, ...]
    entries: tuple[ModelEntry, ...]
    index: NameIndex
    misfits: tuple[Misfit, ...]
    unmatched: tuple[str, ...]
    strays: tuple[str, ...]


class Catalog:
    """All models under ``roots``. A model of an earlier root goes before its namesakes."""

    def __init__(
        self,
        roots: Sequence[Root],
        settings: Mapping[str, ModelSettings] | None = None,
        *,
        adapter_dirs: Sequence[Path] = (),
        adapter_models: Mapping[str, str] | None = None,
    ) -> None:
        """``settings`` are the owner's, by names of models; ``adapter_models`` are the models that
        the owner names for adapters, which else say themselves what they go over."""
        self._roots = tuple(roots)
        self._settings = dict(settings or {})
        self._adapter_dirs = tuple(adapter_dirs)
        self._adapter_models = dict(adapter_models or {})
        self._lock = threading.Lock()
        self._reader = FolderReader()
        self._adapter_reader = AdapterReader()
        self._records: dict[str, _Record] = {}  # settled ones, by path
        self._scanned: _Scanned | None = None
        self._inventory: _Inventory | None = None
        self.copies = Copies()

    @property
    def roots(self) -> tuple[Root, ...]:
        return self._roots

    def entries(self) -> tuple[ModelEntry, ...]:
        """What there is now. Only what changed since the last call is read again."""
        with self._lock:
            return self._scan().entries

    def misfits(self) -> tuple[Misfit, ...]:
        """What of the owner's settings can't be, with the models that there are now."""
        with self._lock:
            return self._scan().misfits

    def unmatched(self) -> tuple[str, ...]:
        """The names in the owner's settings that are no model's now."""
        with self._lock:
            return self._scan().unmatched

    def stray_adapters(self) -> tuple[str, ...]:
        """A sentence on each adapter that goes over no model that is here now."""
        with self._lock:
            return self._scan().strays

    def find(self, name: str) -> ModelEntry:
        """The model that a client means by ``name``, servable or not. Raises ModelNotFound."""
        name = self.copies.target(without_latest(name.strip())) or name
        with self._lock:
            entry = self._find_unchanged(name)
            if entry is not None:
                return entry
            inventory = self._scan()
        place = inventory.index.find(name)
        if place is None:  # only now: what has come since the last scan may be meant as well
            place = inventory.index.find_tagged(name)
        if place is None:
            raise _not_found(name, inventory)
        return inventory.entries[place]

    def names(self, entry: ModelEntry) -> tuple[str, ...]:
        """The short names of a model, its id first."""
        with self._lock:
            inventory = self._scan()
        own: tuple[str, ...] = ()
        if entry in inventory.entries:
            own = inventory.index.names(inventory.entries.index(entry))
        seconds = (name for name, target in self.copies.all().items() if target in own)
        return (*own, *seconds)

    def copied_entries(self) -> tuple[ModelEntry, ...]:
        """The models that have a second name, once more under each, for lists."""
        entries = self.entries()
        by_name = {self.lasting_name(entry): entry for entry in reversed(entries)}
        return tuple(
            replace(by_name[target], id=name)
            for name, target in self.copies.all().items()
            if target in by_name
        )

    def lasting_name(self, entry: ModelEntry) -> str:
        """One that stays when other models come and go."""
        return entry.org_name or entry.id

    def _find_unchanged(self, name: str) -> ModelEntry | None:
        """The answer of the last scan, if it still holds: spares a request the walk."""
        if self._inventory is None:
            return None
        place = self._inventory.index.find(name)
        if place is None or self._inventory.entries[place].problem is not None:
            return None
        record = self._inventory.records[place]
        sighting = look_again(record.place, self._reader)
        if sighting is None or sighting.place.path != record.place.path:
            return None
        if _state(sighting) != (record.state, True):
            return None
        entry = self._inventory.entries[place]
        if not self._has_its_adapter(entry):
            return None
        return entry

    def _has_its_adapter(self, entry: ModelEntry) -> bool:
        """Whether the folder of the entry's adapter is as it was."""
        adapter = entry.adapter
        return adapter is None or self._adapter_reader.read(adapter.path).adapter == adapter

    def _scan(self) -> _Inventory:
        found: dict[tuple[int, int], _Record] = {}
        settled: dict[str, _Record] = {}
        for sighting in sightings(self._roots, self._reader):
            first = found.get(sighting.listing.identity)
            if first is not None:
                others = (*first.others, sighting.place)
                found[sighting.listing.identity] = replace(first, others=others)
                continue
            record, is_final = self._record(sighting)
            found[sighting.listing.identity] = record
            if is_final:
                settled[record.place.path] = record
        self._records = settled
        self._reader.forget_unread()
        models = tuple(record for record in found.values() if record.classification is not None)
        return self._inventory_of(_Scanned(models, *self._adapters()))

    def _adapters(self) -> tuple[tuple[AdapterFolder, ...], tuple[AdapterFolder, ...]]:
        """Those of single models by their settings, and those in the folders for adapters."""
        own = [each.adapter for each in self._settings.values() if each.adapter is not None]
        every = self._adapter_reader.read_all([*own, *adapter_folders(self._adapter_dirs)])
        return every[: len(own)], every[len(own) :]

    def _inventory_of(self, scanned: _Scanned) -> _Inventory:
        before = self._inventory
        if before is not None and self._scanned == scanned:
            return before
        made = _inventory(scanned, self._settings, self._adapter_models)
        if before is not None:  # at start it is for the command to say
            _warn_of(set(made.misfits) - set(before.misfits))
        self._scanned, self._inventory = scanned, made
        return made

    def _record(self, sighting: Sighting) -> tuple[_Record, bool]:
        place = sighting.place
        state, is_final = _state(sighting)
        known = self._records.get(place.path)
        if known is not None and known.state == state and known.place == place:
            return known, is_final
        classification = classify(
            Path(place.path),
            sighting.listing,
            name=place.name,
            num_partial=sighting.num_partial,
        )
        return _Record(place, state, classification), is_final


def _state(sighting: Sighting) -> tuple[_State, bool]:
    """The state, and whether it is old enough to be told from the next one by its times."""
    stamps: list[Stamp | None] = []
    is_final = True
    for name in files_read(sighting.listing):
        try:
            status = os.stat(f"{sighting.place.path}/{name}")
        except OSError:  # deleted since it was listed
            stamps.append(None)
        else:
            stamps.append(stamp_of(status))
            is_final = is_final and is_settled(status)
    listing = sighting.listing
    state = _State(
        listing.files, listing.folders, listing.dangling, sighting.num_partial, tuple(stamps)
    )
    return state, is_final


def _inventory(
    scanned: _Scanned,
    settings: Mapping[str, ModelSettings],
    adapter_models: Mapping[str, str],
) -> _Inventory:
    records = list(scanned.models)
    models = [(record, record.classification) for record in records if record.classification]
    namings = [_naming(record, found) for record, found in models]
    ids = assign_ids(namings)
    entries = [
        _entry(id, naming, record.place, found)
        for id, naming, (record, found) in zip(ids, namings, models, strict=True)
    ]
    over = pair(scanned.adapters, adapter_models, entries, NameIndex(ids, namings))
    for place, folder in over.pairs:
        records.append(records[place])
        namings.append(adapted_naming(namings[place], folder))
        entries.append(adapted_entry(entries[place], folder))
    ids = [entry.id for entry in entries]
    index = NameIndex(ids, namings)
    fitted = fit(settings, entries, namings, index)
    own_adapters = {each.adapter.path: each for each in scanned.own_adapters}
    for place, entry in enumerate(entries):
        num_before = place - len(models)
        if num_before >= 0:  # once more, over what its base has become
            base, folder = over.pairs[num_before]
            entry = entries[place] = adapted_entry(entries[base], folder)
        if place in fitted.models:
            entries[place] = with_settings(entry, fitted.models[place], own_adapters)
    if fitted.aliases:
        index = NameIndex(ids, namings, fitted.aliases)
    return _Inventory(
        tuple(records), tuple(entries), index, fitted.misfits, fitted.unmatched, over.strays
    )


def _naming(record: _Record, found: Classification) -> Naming:
    place = record.place
    paths = [place.path, os.path.realpath(place.path), *(other.path for other in record.others)]
    if place.repository is not None:
        paths.append(place.repository)
    aliases = [_full_name(other) for other in record.others]
    aliases += [other.name for other in record.others]
    return Naming(
        name=printable(place.name),
        org=printable(place.org) if place.org else None,
        label=printable(os.path.basename(place.root.source.rstrip("/"))),
        paths=tuple(dict.fromkeys(paths)),
        aliases=tuple(map(printable, aliases)),
        is_servable=found.problem is None,
    )


def _full_name(place: Place) -> str:
    return f"{place.org}/{place.name}" if place.org else place.name


def _entry(id: str, naming: Naming, place: Place, found: Classification) -> ModelEntry:
    return ModelEntry(
        id=id,
        path=Path(place.path),
        kind=found.kind,
        org_name=naming.full_name if naming.org else None,
        source=printable(place.root.source),
        model_type=found.model_type,
        architecture=found.architecture,
        weight_bytes=found.weight_bytes,
        quantization=found.quantization,
        context_length=found.context_length,
        created=found.created,
        problem=found.problem,
        embedding=found.embedding,
        sees=found.sees,
    )


def _warn_of(misfits: Iterable[Misfit]) -> None:
    for misfit in misfits:
        logger.warning("settings of the model '%s': %s", misfit.table, misfit.words)


def _not_found(name: str, inventory: _Inventory) -> ModelNotFound:
    if inventory.entries:
        nearest = ", ".join(map(repr, inventory.index.nearest(name)))
        advice = f"The nearest here: {nearest}. `maxi-mlx list` and GET /v1/models name all."
    else:
        advice = (
            "There are no models on this machine yet: get one with `maxi-mlx pull smollm2`, or "
            "start the server with --model-dir and the folder that holds your MLX models."
        )
    return ModelNotFound(f"The model {printable(name)!r} was not found. {advice}", param="model")
