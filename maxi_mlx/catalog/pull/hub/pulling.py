"""Makes sure that a repository's model is in the hub cache. Works on the calling thread; safe to
kill at any moment and to run twice at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from maxi_mlx.catalog.pull.hub.cache import CachedRepository
from maxi_mlx.catalog.pull.hub.files import HubFile, serving, why_not_served
from maxi_mlx.catalog.pull.hub.library import HubLibrary, Listing
from maxi_mlx.catalog.pull.hub.repository import Repository
from maxi_mlx.catalog.pull.hub.transfer import Transfer
from maxi_mlx.catalog.pull.lock import locked
from maxi_mlx.catalog.pull.progress import Progress
from maxi_mlx.catalog.pull.reasons import plain_words
from maxi_mlx.catalog.pull.space import check_space
from maxi_mlx.catalog.roots import hub_cache
from maxi_mlx.core.errors import DownloadFailed, ModelNotFound


@dataclass(frozen=True, slots=True)
class Pulled:
    """``num_fetched_bytes`` is 0 where all was there."""

    folder: Path
    commit: str
    num_fetched_bytes: int


def pull_repository(
    repository: Repository,
    progress: Progress,
    *,
    label: str = "Downloading {name}",
    endpoint: str | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Pulled:
    """``label`` is what the progress is called, with ``{name}`` and ``{commit}``.

    Raises a MaxiError, in words for the user, for whatever keeps it from being fetched, and
    Abandoned once ``is_wanted`` says no; what came until then is kept."""
    cached = CachedRepository(hub_cache(), repository)
    lock = lock_file(cached.path)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock, progress):
            hub = HubLibrary(endpoint)
            listing = hub.listing(repository)
            files = _chosen(repository, listing)
            pull = _Pull(hub, repository, listing.commit, cached, label, progress, is_wanted)
            return pull.run(files)
    except OSError as error:
        raise DownloadFailed(
            f"{repository} could not be written to {cached.path}: {plain_words(error)}. What is "
            "there is kept; see to the disk and run the command again."
        ) from error


def lock_file(repository: Path) -> Path:
    """Held while this folder of a hub cache is being fetched, by whoever shares the cache. It lies
    where the library has its own, which are one a file."""
    return repository.parent / ".locks" / repository.name / "maxi-mlx.lock"


def _chosen(repository: Repository, listing: Listing) -> tuple[HubFile, ...]:
    """The small ones first: what is wrong with a model shows before its weights are fetched."""
    paths = [file.path for file in listing.files]
    problem = why_not_served(paths)
    if problem is not None:
        raise ModelNotFound(f"{repository} {problem}. Nothing was fetched.")
    wanted = serving(paths)
    files = [file for file in listing.files if file.path in wanted]
    for file in files:
        if not file.has_sound_digest:
            raise DownloadFailed(f"The hub tells no checksum of {file.path}. Nothing was fetched.")
    return tuple(sorted(files, key=lambda file: (file.num_bytes, file.path)))


@dataclass(frozen=True, slots=True)
class _Pull:
    hub: HubLibrary
    repository: Repository
    commit: str
    cached: CachedRepository
    label: str
    progress: Progress
    is_wanted: Callable[[], bool]

    def run(self, files: tuple[HubFile, ...]) -> Pulled:
        missing = {file: self.cached.missing_bytes(file, self.commit) for file in files}
        num_missing = sum(missing.values())
        self.cached.make_room_for_parts()
        if num_missing:
            check_space(
                [(self.cached.path, num_missing)], remedy="set HF_HUB_CACHE to a folder elsewhere"
            )
            self._fetch(files, missing)
        for file in files:
            self.cached.link(file, self.commit)
        # Last, so that a name never stands for half a model.
        self.cached.point(self.repository.revision, self.commit)
        return Pulled(self.cached.snapshot(self.commit), self.commit, num_missing)

    def _fetch(self, files: tuple[HubFile, ...], missing: dict[HubFile, int]) -> None:
        total = sum(file.num_bytes for file in files)
        already = total - sum(missing.values())
        begun = f", {already / 1e6:.1f} MB of them are here already" if already else ""
        self.progress.say(
            f"{self.repository} comes from {self.hub.endpoint} "
            f"({len(files)} files, {total / 1e6:.1f} MB{begun})."
        )
        self.progress.start(
            self.label.format(name=self.repository.short_name, commit=self.commit[:12]),
            total,
            unit="bytes",
            already=already,
        )
        for file in files:
            if not self.cached.has(file, self.commit):
                self._transfer(file).run()
                self.cached.keep(file)
        self.progress.done()
        self.progress.say("Verified: every file has the checksum that the hub tells.")

    def _transfer(self, file: HubFile) -> Transfer:
        return Transfer(
            self.hub,
            self.repository,
            file,
            commit=self.commit,
            part=self.cached.part(file),
            progress=self.progress,
            is_wanted=self.is_wanted,
        )
