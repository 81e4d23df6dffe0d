"""The Hugging Face hub cache: `models--org--name` folders, their refs, snapshots and blobs.

Knows that layout alone; does not know what is inside a snapshot.
"""

from __future__ import annotations

import os
from pathlib import Path

from maxi_mlx.catalog.folders import FolderReader
from maxi_mlx.catalog.model_files import BrokenFile, read_bytes

PREFIX = "models--"


def repository_names(folder_name: str) -> tuple[str | None, str]:
    """Organisation and name: ``models--org--name``; old repositories have no organisation."""
    org, separator, name = folder_name.removeprefix(PREFIX).partition("--")
    return (org, name) if separator else (None, org)


def snapshot(repository: str, reader: FolderReader) -> str | None:
    """The folder of the revision that ``main`` points to, or else the newest one."""
    snapshots = f"{repository}/snapshots"
    listing = reader.list(snapshots)
    if listing is None or not listing.folders:
        return None
    revision = _main_revision(repository, reader)
    if revision in listing.folders:
        return f"{snapshots}/{revision}"
    # Downloaded by commit, or main has moved on and nothing of it is here yet.
    return max((f"{snapshots}/{name}" for name in listing.folders), key=_modified)


def num_incomplete(repository: str, reader: FolderReader) -> int:
    """Files whose download was begun and hasn't ended."""
    listing = reader.list(f"{repository}/blobs")
    if listing is None:
        return 0
    begun = [name for name in listing.files if name.endswith(".incomplete")]
    # A finished blob beside its own remains is finished. Newer versions of huggingface_hub put a
    # word of their own between its name and the ending.
    stems = (name.removesuffix(".incomplete") for name in begun)
    return sum(not {stem, stem.rpartition(".")[0]} & listing.files for stem in stems)


def _main_revision(repository: str, reader: FolderReader) -> str | None:
    refs = reader.list(f"{repository}/refs")
    if refs is None or "main" not in refs.files:
        return None
    try:
        return read_bytes(Path(repository, "refs", "main"), max_bytes=200).decode().strip()
    except (BrokenFile, UnicodeDecodeError):
        return None  # as good as none: the newest snapshot answers


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
