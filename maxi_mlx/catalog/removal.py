"""Removes a model from the disk: its folder, or its repository in the hub cache.

Only what lies in a folder that is looked in, and never by way of a link. Blocks on the files.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maxi_mlx.catalog import hub
from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import fold, printable, without_latest
from maxi_mlx.catalog.pull.hub.pulling import lock_file
from maxi_mlx.catalog.pull.lock import is_held
from maxi_mlx.catalog.pull.reasons import plain_words
from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.errors import InvalidRequest, SetupError
from maxi_mlx.core.models import ModelEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What goes with a model. ``num_revisions`` are those of the hub cache, all of which go; 0 for
    a folder elsewhere."""

    entry: ModelEntry
    path: Path
    root: Path
    num_bytes: int
    num_revisions: int


def planned_removal(name: str, catalog: Catalog) -> Removal:
    """What would go. Raises ModelNotFound, and InvalidRequest for what must not be removed here."""
    entry = catalog.find(name)
    _check_exact(name, entry, catalog)
    if entry.base is not None and entry.adapter is not None:
        raise _refusal(
            entry,
            f"it is {entry.base.id} with an adapter over it, whose folder is {entry.adapter.path}",
        )
    path = _repository(entry.path) or entry.path
    root = _root_of(path, catalog.roots)
    inside = [
        each
        for each in catalog.entries()
        if each != entry and each.base != entry and each.path.is_relative_to(path)
    ]
    if inside:
        raise _refusal(entry, f"the folder {path} holds {inside[0].id} as well")
    is_cached = path.name.startswith(hub.PREFIX)
    if is_cached and is_held(lock_file(path.name)):
        raise _refusal(entry, "it is being fetched right now")
    return Removal(
        entry=entry,
        path=path,
        root=root,
        num_bytes=_num_bytes(path),
        num_revisions=_num_revisions(path) if is_cached else 0,
    )


def remove(removal: Removal, catalog: Catalog) -> None:
    """Raises SetupError where the system refuses."""
    try:
        if removal.path.name.startswith(hub.PREFIX):
            _remove_revisions(removal.path)
        if removal.path.exists():
            shutil.rmtree(removal.path)
        _remove_empty(removal.path.parent, removal.root)
        catalog.copies.remove_all_of(catalog.lasting_name(removal.entry))
    except OSError as error:
        raise SetupError(
            f"{removal.entry.id} could not be removed from {removal.path}: {plain_words(error)}"
        ) from error


def _check_exact(name: str, entry: ModelEntry, catalog: Catalog) -> None:
    """A guess is good enough to answer with, and not to remove."""
    asked = fold(without_latest(name.strip()).rstrip("/"))
    known = [*catalog.names(entry), str(entry.path)]
    if asked not in map(fold, known):
        raise InvalidRequest(
            f"'{printable(name)}' is taken for {entry.id} where it is asked; to remove it, name it "
            "in full.",
            param="model",
        )


def _repository(path: Path) -> Path | None:
    """The hub cache's folder around a snapshot."""
    for folder in (path, path.parent.parent):
        if folder.name.startswith(hub.PREFIX):
            return folder
    return None


def _root_of(path: Path, roots: Sequence[Root]) -> Path:
    for root in roots:
        if path == root.path:
            raise InvalidRequest(
                f"{path} is a folder that models are looked for in (--model-dir), and is not "
                "removed here: remove it yourself.",
                param="model",
            )
        if path.is_relative_to(root.path):
            straight = os.path.join(os.path.realpath(root.path), path.relative_to(root.path))
            real = os.path.realpath(path)
            if real == straight:
                return root.path
            raise InvalidRequest(
                f"{path} is a link, or is reached by one, to {real}: remove that yourself.",
                param="model",
            )
    raise InvalidRequest(f"{path} is in none of the folders that are looked in.", param="model")


def _refusal(entry: ModelEntry, reason: str) -> InvalidRequest:
    return InvalidRequest(f"{entry.id} is not removed: {reason}.", param="model")


def _num_bytes(path: Path) -> int:
    """Of the files themselves; links take none."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(path)
        for name in names
    )


def _num_revisions(repository: Path) -> int:
    snapshots = repository / "snapshots"
    return sum(folder.is_dir() for folder in snapshots.iterdir()) if snapshots.is_dir() else 0


def _remove_revisions(repository: Path) -> None:
    """As the library does it, which also gives back what repositories share. What it takes for
    broken it leaves to us."""
    from huggingface_hub import scan_cache_dir

    found = scan_cache_dir(repository.parent)
    own = frozenset(each for each in found.repos if each.repo_path.name == repository.name)
    # Of this repository alone: copies of one may have a commit in common.
    found = dataclasses.replace(found, repos=own)
    commits = [revision.commit_hash for each in own for revision in each.revisions]
    if commits:
        found.delete_revisions(*commits).execute()


def _remove_empty(folder: Path, root: Path) -> None:
    """The organisation's folder, where this was its last model."""
    if folder != root and folder.is_relative_to(root) and not os.listdir(folder):
        folder.rmdir()
