"""Puts the owner's settings to the models that there are: which is meant, and what doesn't fit.

Pure. Folders may come later, so that a name without a model is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from maxi_mlx.catalog.adapter_folders import AdapterFolder
from maxi_mlx.catalog.names import NameIndex, Naming, fold
from maxi_mlx.core.model_settings import ModelSettings
from maxi_mlx.core.models import ModelEntry

# They mean the model in use, whatever a model is called.
_RESERVED = ("default",)
_WRITERS = ("language", "vision")
_OF_WRITERS = ("sampling", "max_tokens", "chat_template", "system", "tool_parser", "adapter")


@dataclass(frozen=True, slots=True)
class Misfit:
    """What is wrong with one setting, of the table of that name."""

    table: str
    key: str
    words: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """``models`` and ``aliases`` are by place. ``unmatched`` are the tables of no model."""

    models: Mapping[int, ModelSettings]
    aliases: Mapping[str, int]
    misfits: tuple[Misfit, ...]
    unmatched: tuple[str, ...]


def fit(
    tables: Mapping[str, ModelSettings],
    entries: Sequence[ModelEntry],
    namings: Sequence[Naming],
    index: NameIndex,
) -> Fitted:
    """What misfits is left out of the rest."""
    models: dict[int, ModelSettings] = {}
    owners: dict[int, str] = {}
    misfits: list[Misfit] = []
    aliases = _Aliases(entries, namings)
    unmatched = []
    for table, settings in tables.items():
        place = index.find(table)
        if place is None:
            place = index.find_tagged(table)
        if place is None:
            unmatched.append(table)
            continue
        if place in owners:
            words = f"is {entries[place].id}, which has settings under '{owners[place]}' already"
            misfits.append(Misfit(table, "", words))
            continue
        owners[place] = table
        own, found = aliases.taken(settings.aliases, place)
        models[place] = replace(settings, aliases=own)
        misfits += [Misfit(table, "alias", words) for words in found]
        misfits += [Misfit(table, key, words) for key, words in _misfits(settings, entries[place])]
    return Fitted(models, aliases.places, tuple(misfits), tuple(unmatched))


def with_settings(
    entry: ModelEntry, settings: ModelSettings, adapters: Mapping[Path, AdapterFolder]
) -> ModelEntry:
    longest = entry.context_length
    if settings.context_tokens is not None:
        longest = min(settings.context_tokens, longest or settings.context_tokens)
    entry = replace(entry, settings=_over(entry.settings, settings), context_length=longest)
    if settings.adapter is None or entry.base is not None:
        return entry
    found = adapters[settings.adapter]
    problem = found.problem and f"its adapter {found.adapter.path} can't be used: {found.problem}"
    return replace(
        entry,
        adapter=found.adapter,
        weight_bytes=entry.weight_bytes + found.adapter.weight_bytes,
        problem=entry.problem or problem,
    )


def _over(inherited: ModelSettings, own: ModelSettings) -> ModelSettings:
    """A model with an adapter has its base's settings where its own say nothing."""
    silent = ModelSettings()
    said = {
        each.name: getattr(own, each.name)
        for each in fields(own)
        if getattr(own, each.name) != getattr(silent, each.name)
    }
    sampling = dict(inherited.sampling) | dict(own.sampling)
    return replace(inherited, **{**said, "sampling": tuple(sampling.items())})


class _Aliases:
    """The names that the owner gives; none hides a model's own name or another alias."""

    def __init__(self, entries: Sequence[ModelEntry], namings: Sequence[Naming]) -> None:
        self.places: dict[str, int] = {}
        self._entries = entries
        self._own_names: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        names = [entry.id for entry in entries], [each.full_name for each in namings]
        for kind in (*names, [each.name for each in namings]):
            for place, name in enumerate(kind):
                self._own_names.setdefault(fold(name), place)

    def taken(self, aliases: Iterable[str], place: int) -> tuple[tuple[str, ...], list[str]]:
        """Those that the model at ``place`` gets, and why it doesn't get others."""
        own, misfits = [], []
        for alias in aliases:
            words = self._misfit(alias, place)
            if words is not None:
                misfits.append(words)
                continue
            self._taken[fold(alias)] = self.places[alias] = place
            own.append(alias)
        return tuple(own), misfits

    def _misfit(self, alias: str, place: int) -> str | None:
        id, name = self._entries[place].id, fold(alias)
        if name in _RESERVED:
            return f"'{alias}' means the model in use and can't be one model's name"
        if self._own_names.get(name, place) != place:
            other = self._entries[self._own_names[name]].id
            return f"'{alias}' for {id} is the name of {other} itself"
        if self._taken.get(name, place) != place:
            other = self._entries[self._taken[name]].id
            return f"'{alias}' for {id} is an alias of {other} already"
        return None


def _misfits(settings: ModelSettings, entry: ModelEntry) -> Iterable[tuple[str, str]]:
    """The keys and what is wrong with them."""
    longest, wanted = entry.context_length, settings.context_tokens
    if wanted is not None and longest is not None and wanted > longest:
        yield "context", f"{wanted} is more than the {longest} tokens that {entry.id} has"
    if settings.adapter is not None and entry.base is not None:
        yield "adapter", f"{entry.id} is {entry.base.id} with an adapter over it already"
    if entry.kind in (*_WRITERS, "unknown"):
        return
    for name in _OF_WRITERS:
        if getattr(settings, name):
            key = settings.sampling[0][0] if name == "sampling" else name
            yield key, f"{entry.id} is of kind {entry.kind}, and this is for models that write text"
