"""Model names: short unique ids, and the many ways in which clients write them.

Pure; no file is touched, whatever a client sends as a name.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from maxi_mlx.catalog.tags import may_mean

MAX_NAME_LENGTH = 200
_NUM_NEAREST = 3
_NEAR_ENOUGH = 0.5
_LATEST = ":latest"
# Ollama's clients put it before a model's name on the hub.
_HUB = re.compile(r"(?:https?://)?(?:hf\.co|huggingface\.co)/", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What names one model folder. ``label`` tells copies of one model apart.

    ``paths`` are absolute; ``aliases`` are names of symlinks to the folder.
    """

    name: str
    org: str | None
    label: str
    paths: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    is_servable: bool = True
    takes_tags: bool = True  # may be meant by a name of Ollama's library

    @property
    def full_name(self) -> str:
        return f"{self.org}/{self.name}" if self.org else self.name


def printable(text: str, *, max_length: int = MAX_NAME_LENGTH) -> str:
    """Fit for JSON and a terminal: bytes that aren't UTF-8 and control characters are replaced."""
    text = unicodedata.normalize("NFC", text[:max_length])
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def assign_ids(namings: Sequence[Naming]) -> list[str]:
    """An id for each: its name; ``org/name`` where two share it; ``name@label`` for copies.

    A folder that can be served gets the plain form before one that can't.
    """
    full_names: dict[str, set[str]] = defaultdict(set)
    for naming in namings:
        full_names[fold(naming.name)].add(fold(naming.full_name))
    ids = [""] * len(namings)
    taken: set[str] = set()
    for place in _by_preference(namings):
        naming = namings[place]
        is_shared = len(full_names[fold(naming.name)]) > 1
        wanted = naming.full_name if is_shared else naming.name
        label = re.sub(r"[^\w.]+", "-", naming.label.lower()).strip("-")
        ids[place] = next(form for form in _forms(wanted, label) if fold(form) not in taken)
        taken.add(fold(ids[place]))
    return ids


def _by_preference(namings: Sequence[Naming]) -> list[int]:
    return sorted(range(len(namings)), key=lambda place: not namings[place].is_servable)


def _forms(wanted: str, label: str) -> Iterator[str]:
    yield wanted
    if label:
        yield f"{wanted}@{label}"
    number = 2
    while True:
        yield f"{wanted}@{label}-{number}" if label else f"{wanted}@{number}"
        number += 1


class NameIndex:
    """Finds the place of a model in ``namings`` by any of its names."""

    def __init__(
        self,
        ids: Sequence[str],
        namings: Sequence[Naming],
        owners_aliases: Mapping[str, int] | None = None,
    ) -> None:
        self._ids = ids
        self._namings = namings
        self._servable_ids = [
            id for id, naming in zip(ids, namings, strict=True) if naming.is_servable
        ]
        self._places: dict[str, int] = {}
        order = _by_preference(namings)
        # Kind by kind, so that a model's id is never hidden by another's folder or alias.
        self._add((id, place) for place, id in enumerate(ids))
        self._add((namings[place].full_name, place) for place in order)
        self._add((namings[place].name, place) for place in order)
        self._owners_aliases = dict(owners_aliases or {})
        self._add(self._owners_aliases.items())
        self._add((alias, place) for place in order for alias in namings[place].aliases)
        self._add((path, place) for place in order for path in namings[place].paths)
        self._add((end, place) for place in order for end in _path_ends(namings[place].paths))

    def _add(self, names: Iterable[tuple[str, int]]) -> None:
        for name, place in names:
            self._places.setdefault(fold(name), place)

    def find(self, name: str) -> int | None:
        """The model that a client means by ``name``."""
        name = _HUB.sub("", name.strip(), count=1)
        for form in (name, without_latest(name)):
            place = self._places.get(fold(form))
            if place is None:
                place = self._places.get(fold(_normal_path(form)))
            if place is not None:
                return place
        return None

    def names(self, place: int) -> tuple[str, ...]:
        """The short ones that `find` knows this model by, its id first."""
        naming = self._namings[place]
        owners = (name for name, meant in self._owners_aliases.items() if meant == place)
        every = (self._ids[place], naming.full_name, naming.name, *owners, *naming.aliases)
        return tuple(name for name in dict.fromkeys(every) if self.find(name) == place)

    def find_tagged(self, name: str) -> int | None:
        """The one model that ``name`` can mean as a name of Ollama's library, such as
        ``qwen3:4b``; None where it could be several."""
        if "/" in name or len(name) > MAX_NAME_LENGTH:
            return None
        wanted = unicodedata.normalize("NFC", name.strip())
        places = [
            place
            for place in _by_preference(self._namings)
            if self._namings[place].is_servable
            and self._namings[place].takes_tags
            and may_mean(wanted, self._namings[place].name)
        ]
        # Copies of one model have one name: the first is meant.
        names = {fold(self._namings[place].full_name) for place in places}
        return places[0] if len(names) == 1 else None

    def nearest(self, name: str) -> list[str]:
        """Up to three ids that a client may have meant, best first; some even where none is near,
        so that an error shows what there is."""
        ids = self._servable_ids or self._ids
        return near(name, ids) or [id for _, id in _by_likeness(name, ids)]


def without_latest(name: str) -> str:
    """The tag of Ollama's that says nothing."""
    return name[: -len(_LATEST)] if fold(name).endswith(_LATEST) else name


def near(name: str, ids: Iterable[str]) -> list[str]:
    """Up to three of ``ids`` that look like ``name``, best first; none where none does."""
    return [id for likeness, id in _by_likeness(name, ids) if likeness >= _NEAR_ENOUGH]


def _by_likeness(name: str, ids: Iterable[str]) -> list[tuple[float, str]]:
    wanted = fold(name[:MAX_NAME_LENGTH].strip().rstrip("/")).removesuffix(_LATEST)
    wanted = wanted.rpartition("/")[2] or wanted
    scores = sorted((-_likeness(wanted, fold(id)), id) for id in ids)
    return [(-score, id) for score, id in scores[:_NUM_NEAREST]]


def _likeness(wanted: str, id: str) -> float:
    short = id.rpartition("/")[2]
    ratio = SequenceMatcher(None, wanted, short, autojunk=False).ratio()
    holds = len(wanted) >= 2 and (wanted in id or short in wanted)
    return ratio + holds


def fold(name: str) -> str:
    """Equal for names that are told apart by nobody."""
    return unicodedata.normalize("NFC", name).casefold()


def _normal_path(name: str) -> str:
    """``~`` is the home folder; ``./`` and ``../`` in front and a slash behind say nothing."""
    if name.startswith("~/"):
        name = os.path.expanduser(name)
    path = posixpath.normpath(name)
    while path.startswith("../"):
        path = path[3:]
    return path


def _path_ends(paths: Iterable[str]) -> Iterator[str]:
    """``models/Qwen3-0.6B`` for a folder of that path anywhere."""
    for path in paths:
        parts = path.strip("/").split("/")
        for start in range(1, len(parts)):
            yield "/".join(parts[start:])
