"""Removes a model from the disk: its folder, or its repository in the hub cache.

Only what lies in a folder that is looked in, and never by way of a link. Blocks on the files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxi_mlx.catalog import hub
from maxi_mlx.catalog.catalog import Catalog
from maxi_mlx.catalog.names import fold, printable, without_latest
from maxi_mlx.catalog.pull.hub.pulling import lock_file
from maxi_mlx.catalog.pull.lock import locked_at_once
from maxi_mlx.catalog.pull.reasons import plain_words
from maxi_mlx.catalog.roots import Root
from maxi_mlx.core.errors import InvalidRequest, ModelNotFound, SetupError
from maxi_mlx.core.models import ModelEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What goes with a model. ``num_revisions`` are those of a repository in the hub cache, all of
    which go; None for a folder elsewhere."""

    entry: ModelEntry
    path: Path
    root: Path
    num_bytes: int
    num_revisions: int | None


def planned_removal(name: str, catalog: Catalog) -> Removal:
    """What would go. Raises ModelNotFound, and InvalidRequest for what must not be removed here."""
    entry = catalog.find(name)
    with _explained(entry):
        return _planned(name, entry, catalog)


def remove(removal: Removal, catalog: Catalog) -> None:
    """Raises InvalidRequest where it is being fetched, ModelNotFound where it is gone, SetupError
    where the system refuses."""
    with _explained(removal.entry), _not_fetched(removal):
        removal.path.stat()  # raises where somebody else was faster
        if removal.num_revisions:
            _remove_revisions(removal.path)
        if removal.path.exists():
            shutil.rmtree(removal.path)
        catalog.copies.remove_all_of(catalog.lasting_name(removal.entry))
    _remove_if_empty(removal.path.parent, removal.root)


def _planned(name: str, entry: ModelEntry, catalog: Catalog) -> Removal:
    _check_exact(name, entry, catalog)
    if entry.base is not None and entry.adapter is not None:
        raise _refusal(
            entry,
            f"it is {entry.base.id} with an adapter over it, whose folder is {entry.adapter.path}",
        )
    repository = _repository(entry.path)
    path = repository or entry.path
    root = _root_of(path, catalog.roots)
    inside = [
        each for each in catalog.entries() if each != entry and _own_path(each).is_relative_to(path)
    ]
    if inside:
        raise _refusal(entry, f"the folder {path} holds {inside[0].id} as well")
    if repository is None and not _is_a_models_alone(entry):
        raise _refusal(
            entry, f"it can't be told that {path} holds nothing else: remove that yourself"
        )
    removal = Removal(
        entry=entry,
        path=path,
        root=root,
        num_bytes=_num_bytes(path),
        num_revisions=_num_revisions(path) if repository is not None else None,
    )
    with _not_fetched(removal):
        return removal


@contextlib.contextmanager
def _explained(entry: ModelEntry) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ModelNotFound(f"{entry.id} is gone: it was removed meanwhile.") from error
    except OSError as error:
        raise SetupError(f"{entry.id} could not be removed: {plain_words(error)}") from error


@contextlib.contextmanager
def _not_fetched(removal: Removal) -> Iterator[None]:
    """Whoever wants to fetch it meanwhile waits. Raises InvalidRequest where it is under way."""
    if removal.num_revisions is None:
        yield
        return
    with locked_at_once(lock_file(removal.path)) as is_locked:
        if not is_locked:
            raise _refusal(removal.entry, "it is being fetched or removed right now")
        yield


def _check_exact(name: str, entry: ModelEntry, catalog: Catalog) -> None:
    """A guess, a link's name or an alias is good enough to answer with, and not to remove."""
    asked = without_latest(name.strip()).rstrip("/")
    if asked in (entry.id, str(entry.path)):
        return
    wanted = fold(asked)
    others = [each for each in catalog.entries() if each not in (entry, entry.base)]
    is_shared = any(wanted in _plain_names(each) for each in others)
    if is_shared or wanted not in {fold(entry.id), *_plain_names(entry)}:
        raise InvalidRequest(
            f"'{printable(name)}' is taken for {entry.id} where it is asked; to remove it, name it "
            f"in full: {entry.id}",
            param="model",
        )


def _plain_names(entry: ModelEntry) -> set[str]:
    """Those that it may share with others, whichever of them is found by it."""
    full_name = entry.org_name or entry.path.name
    return {fold(full_name), fold(full_name.rpartition("/")[2])}


def _repository(path: Path) -> Path | None:
    """The hub cache's folder around a snapshot, or one that holds no more than a begun download."""
    if path.parent.name == "snapshots" and path.parent.parent.name.startswith(hub.PREFIX):
        return path.parent.parent
    return path if path.name.startswith(hub.PREFIX) and (path / "blobs").is_dir() else None


def _own_path(entry: ModelEntry) -> Path:
    """Where what is the entry's own lies; a model with an adapter over it has no more than that."""
    if entry.base is not None and entry.adapter is not None:
        return entry.adapter.path
    return entry.path


def _is_a_models_alone(entry: ModelEntry) -> bool:
    """Many folders have a config.json or a file of weights in them, and much else: a project, a
    folder of downloads."""
    if entry.problem is None:
        return True
    folders = {each.name for each in os.scandir(entry.path) if each.is_dir()}
    return (entry.model_type or entry.architecture) is not None and folders <= {".cache"}


def _root_of(path: Path, roots: Sequence[Root]) -> Path:
    for root in roots:
        if Path(os.path.realpath(root.path)).is_relative_to(os.path.realpath(path)):
            raise InvalidRequest(
                f"{root.path} is a folder that models are looked for in (--model-dir), and is not "
                "removed here: remove it yourself.",
                param="model",
            )
    for root in roots:
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


def _remove_if_empty(folder: Path, root: Path) -> None:
    """The organisation's folder, where this was its last model; one that holds more stays."""
    if folder != root and folder.is_relative_to(root):
        with contextlib.suppress(OSError):
            folder.rmdir()
