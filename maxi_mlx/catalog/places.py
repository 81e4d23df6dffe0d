"""Walks the roots and yields each folder that may hold a model, with where it was found.

Decides by file names alone; does not open model files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from maxi_mlx.catalog import hub
from maxi_mlx.catalog.folders import FolderReader, Listing
from maxi_mlx.catalog.roots import Root

MAX_DEPTH = 2  # root/org/name

_MODEL_MARKS = frozenset({"config.json", "model_index.json", "adapter_config.json"})
_WEIGHT_SUFFIXES = (".safetensors", ".gguf")
_PARTIAL_SUFFIXES = (".part", ".partial", ".incomplete", ".download", ".crdownload", ".aria2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that may hold a model. ``repository`` is the hub cache's folder around it."""

    path: str
    name: str
    org: str | None
    root: Root
    repository: str | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A place as it is now. ``num_partial`` counts downloads in it that haven't ended."""

    place: Place
    listing: Listing
    num_partial: int


def sightings(roots: tuple[Root, ...], reader: FolderReader) -> Iterator[Sighting]:
    """Every place in every root, in the roots' order. A folder may come by several paths."""
    for root in roots:
        yield from _Walk(root, reader).run()


def look_again(place: Place, reader: FolderReader) -> Sighting | None:
    """The same place now, or None where it no longer holds what may be a model."""
    if place.repository is not None:
        return _hub_sighting(place.repository, place.root, reader)
    listing = reader.list(place.path)
    if listing is None or not _may_be_model(listing):
        return None
    return Sighting(place, listing, _num_partial(place.path, listing, reader))


class _Walk:
    """One root's walk. Symlinks that lead back up are cut by the depth and by ``_depths``."""

    def __init__(self, root: Root, reader: FolderReader) -> None:
        self._root = root
        self._reader = reader
        self._depths: dict[tuple[int, int], int] = {}

    def run(self) -> Iterator[Sighting]:
        path = str(self._root.path)
        if self._root.layout == "hub" or os.path.basename(path).startswith(hub.PREFIX):
            yield from self._hub(path)
        else:
            yield from self._folder(path, ())

    def _place(self, path: str, names: tuple[str, ...]) -> Place:
        org = names[0] if len(names) == MAX_DEPTH else None
        name = names[-1] if names else os.path.basename(path)
        above = os.path.dirname(os.path.dirname(path))
        if os.path.basename(above).startswith(hub.PREFIX):  # one snapshot, given by hand
            org, name = hub.repository_names(os.path.basename(above))
        return Place(path=path, name=name, org=org, root=self._root)

    def _hub(self, path: str) -> Iterator[Sighting]:
        listing = self._reader.list(path)
        children = [f"{path}/{name}" for name in listing.folders] if listing else []
        for repository in (path, *children):
            if os.path.basename(repository).startswith(hub.PREFIX):
                sighting = _hub_sighting(repository, self._root, self._reader)
                if sighting is not None:
                    yield sighting

    def _folder(self, path: str, names: tuple[str, ...]) -> Iterator[Sighting]:
        listing = self._reader.list(path)
        if listing is None:
            return
        if _may_be_model(listing):
            yield Sighting(
                self._place(path, names), listing, _num_partial(path, listing, self._reader)
            )
            if _is_whole(listing):
                return  # folders inside a model are its parts
        # Seen from as high or higher up: all that it holds was or will be reached from there.
        if self._depths.get(listing.identity, MAX_DEPTH) <= len(names):
            return
        self._depths[listing.identity] = len(names)
        yield from self._hub(path)
        for name in listing.folders:
            if not name.startswith((".", hub.PREFIX)):
                yield from self._folder(f"{path}/{name}", (*names, name))


def _hub_sighting(repository: str, root: Root, reader: FolderReader) -> Sighting | None:
    num_partial = hub.num_incomplete(repository, reader)
    path = hub.snapshot(repository, reader) or repository
    listing = reader.list(path)
    if listing is None or not (num_partial or _may_be_model(listing)):
        return None
    org, name = hub.repository_names(os.path.basename(repository))
    place = Place(path=path, name=name, org=org, root=root, repository=repository)
    return Sighting(place, listing, num_partial)


def _may_be_model(listing: Listing) -> bool:
    if listing.files & _MODEL_MARKS:
        return True
    return any(
        name.endswith(_WEIGHT_SUFFIXES) or (_is_partial(name) and ".safetensors" in name)
        for name in listing.files | listing.dangling
    )


def _is_whole(listing: Listing) -> bool:
    if "model_index.json" in listing.files or "adapter_config.json" in listing.files:
        return True
    return "config.json" in listing.files and any(
        name.endswith((*_WEIGHT_SUFFIXES, ".bin", ".npz", ".index.json"))
        or name.startswith("tokenizer")
        for name in listing.files
    )


def _is_partial(name: str) -> bool:
    return name.endswith(_PARTIAL_SUFFIXES)


def _num_partial(path: str, listing: Listing, reader: FolderReader) -> int:
    num_partial = sum(map(_is_partial, listing.files))
    if ".cache" in listing.folders:  # huggingface_hub's place for a download to a plain folder
        begun = reader.list(f"{path}/.cache/huggingface/download")
        if begun is not None:
            num_partial += sum(name.endswith(".incomplete") for name in begun.files)
    return num_partial
