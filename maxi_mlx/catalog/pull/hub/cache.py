"""One repository in the hub cache: where huggingface_hub has its files, and how they get there.

models--org--name/blobs/DIGEST               contents
                  snapshots/COMMIT/config.json → ../../blobs/DIGEST
                  refs/main                  the commit that a revision's name stands for
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from maxi_mlx.catalog.pull.hub.files import HubFile
from maxi_mlx.catalog.pull.hub.repository import Repository


class CachedRepository:
    def __init__(self, hub_cache: Path, repository: Repository) -> None:
        self.path = hub_cache / repository.folder_name
        self._blobs = self.path / "blobs"

    def snapshot(self, commit: str) -> Path:
        return self.path / "snapshots" / commit

    def part(self, file: HubFile) -> Path:
        """What is there of a file that isn't whole yet; the catalog knows it by this name."""
        return self._blobs / f"{file.digest}.incomplete"

    def has(self, file: HubFile, commit: str) -> bool:
        place = self.snapshot(commit) / file.path
        return (self._blobs / file.digest).is_file() or place.is_file()

    def missing_bytes(self, file: HubFile, commit: str) -> int:
        if self.has(file, commit):
            return 0
        part = self.part(file)
        have = part.stat().st_size if part.is_file() else 0
        return file.num_bytes - have if have <= file.num_bytes else file.num_bytes

    def make_room_for_parts(self) -> None:
        self._blobs.mkdir(parents=True, exist_ok=True)

    def keep(self, file: HubFile) -> None:
        """The part is whole: from now on it is the file's content."""
        os.replace(self.part(file), self._blobs / file.digest)

    def link(self, file: HubFile, commit: str) -> None:
        """Gives the content its name in the snapshot."""
        place = self.snapshot(commit) / file.path
        if place.is_file():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # a link to what is gone
        blob = self._blobs / file.digest
        try:
            place.symlink_to(os.path.relpath(blob, place.parent))
        except OSError:  # a disk without links, as many outer ones are
            if not file.is_large:  # another small one may have the same content, such as {}
                blob = Path(shutil.copyfile(blob, self.part(file)))
            os.replace(blob, place)

    def revision(self, name: str) -> str | None:
        """The commit that a revision's name stands for here."""
        try:
            return self._ref(name).read_text().strip()
        except FileNotFoundError:
            return None

    def point(self, name: str, commit: str) -> None:
        """Has the revision's name stand for this commit; a commit's own name needs nothing."""
        if name == commit or self.revision(name) == commit:
            return
        ref = self._ref(name)
        ref.parent.mkdir(parents=True, exist_ok=True)
        new = ref.with_name(f".{ref.name}.new")
        new.write_text(commit)
        os.replace(new, ref)

    def _ref(self, name: str) -> Path:
        return self.path / "refs" / name
