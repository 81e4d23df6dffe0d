"""What a loaded model sees with. Made and used on the device thread, but for its `Sight`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.catalog.model_files import BrokenFile, read_object
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.loading import Loading, Steps
from maxi_mlx.engine.vision.families import FAMILIES
from maxi_mlx.engine.vision.models import SettingsMaker
from maxi_mlx.engine.vision.packages import has_vision_packages
from maxi_mlx.engine.vision.pictures import is_picture_id, num_picture_tokens, picture_at
from maxi_mlx.engine.vision.places import Place, positions_of

if TYPE_CHECKING:
    from maxi_mlx.engine.row import PromptJob
    from maxi_mlx.engine.vision.sight import Sight


class Eyes:
    """``model`` is one of `models`; pixels are scaled as preprocessor_config.json has it."""

    def __init__(self, model: Any, settings: Mapping[str, Any], sight: Sight) -> None:
        self._model = model
        self.sight = sight
        # What an image's vectors depend on besides its pixels, for the prefix cache.
        self.salt = f"{metadata.version('mlx-vlm')} {sorted(settings.items())}".encode()
        self._factor = float(settings.get("rescale_factor", 1 / 255))
        is_centred = settings.get("do_normalize", True)
        mean, deviation = ("image_mean", "image_std") if is_centred else ("", "")
        self._mean = mx.array(settings.get(mean, [0.5 * is_centred] * 3), mx.float32)
        self._deviation = mx.array(settings.get(deviation, [1 - 0.5 * is_centred] * 3), mx.float32)

    def has_to_look(self, job: PromptJob) -> bool:
        """Whether the prompt's next tokens are an image's that wasn't looked at to its end."""
        picture = picture_at(job.num_processed, job.pictures)
        if picture is None:
            return False
        return job.looked_at is not picture or len(job.vectors) < len(picture.crops)

    def look(self, job: PromptJob) -> None:
        """Looks at one more crop of that image."""
        picture = picture_at(job.num_processed, job.pictures)
        assert picture is not None
        if job.looked_at is not picture:
            job.looked_at, job.vectors = picture, []
        job.vectors.append(self._vectors(picture.crops[len(job.vectors)]))

    def end_of_slice(self, end: int, job: PromptJob) -> int:
        """Not within an image whose tokens look at each other."""
        picture = job.looked_at
        if picture is None or not self._model.reads_images_whole:
            return end
        return picture.end if picture.start < end < picture.end else end

    def _vectors(self, crop: NDArray[np.uint8]) -> mx.array:
        """(tokens, width)"""
        pixels = mx.array(crop[None]).astype(mx.float32) * self._factor
        vectors: mx.array = self._model.look((pixels - self._mean) / self._deviation)
        mx.eval(vectors)
        return vectors

    def read(self, token_ids: Sequence[int], job: PromptJob) -> None:
        """Runs the model on the next tokens of a prompt with images."""
        inputs = mx.array(list(token_ids), dtype=mx.uint32)[None]
        embedded, added = self._embedded(token_ids, job)
        if not any(picture.grid for picture in job.pictures):
            self._model(inputs, cache=job.cache, input_embeddings=embedded)
            return
        positions = positions_of(job.num_processed, len(token_ids), job.pictures)
        place = Place(positions=mx.array(positions), added=added)
        self._model(inputs, cache=job.cache, input_embeddings=embedded, place=place)

    def _embedded(
        self, token_ids: Sequence[int], job: PromptJob
    ) -> tuple[mx.array | None, list[mx.array]]:
        """The tokens as vectors, (1, tokens, width), those of one image among them, and what comes
        to the first layers; None where there is none."""
        places = [place for place, each in enumerate(token_ids) if is_picture_id(each)]
        picture = job.looked_at
        if not places or picture is None:
            return None, []
        begun = num_picture_tokens(job.token_ids[picture.start : job.num_processed])
        vectors = mx.concatenate(job.vectors)[begun : begun + len(places)]
        known = [0 if is_picture_id(each) else each for each in token_ids]
        embedded: mx.array = self._model.embed(mx.array(known, mx.uint32))
        own, *more = mx.split(vectors, vectors.shape[1] // embedded.shape[1], axis=1)
        where = mx.array(places)
        embedded[where] = own.astype(embedded.dtype)
        added = []
        for each in more:
            layer = mx.zeros_like(embedded)
            layer[where] = each.astype(embedded.dtype)
            added.append(layer[None])
        if job.num_processed + len(token_ids) >= picture.end:
            job.looked_at, job.vectors = None, []
        return embedded[None], added


@dataclass(frozen=True, slots=True)
class SeeingFolder:
    """``eyes`` is mlx-vlm's package of the family; None where it isn't installed."""

    model_type: str
    eyes: ModuleType | None

    def classes(self, config: dict[str, Any]) -> tuple[type, Any]:  # noqa: ARG002
        """For mlx-lm's loader, which gives config.json's content."""
        return FAMILIES[self.model_type], SettingsMaker(self.eyes)


def seeing_folder(loading: Loading) -> Steps[SeeingFolder | None]:
    """None for a model of text. The library takes seconds to import the first time."""
    model_type = loading.entry.model_type or ""
    if model_type not in FAMILIES or loading.entry.kind != "vision":
        return None
    eyes = None
    if loading.entry.sees and has_vision_packages():
        name = f"mlx_vlm.models.{model_type}"
        eyes = yield from loading.elsewhere(partial(importlib.import_module, name))
    return SeeingFolder(model_type, eyes)


def make_eyes(loading: Loading, model: Any, seeing: SeeingFolder | None) -> Steps[Eyes | None]:
    if seeing is None or seeing.eyes is None:
        return None
    settings, sight = yield from loading.elsewhere(partial(_read_sight, loading.entry))
    return Eyes(model, settings, sight)


def _read_sight(entry: ModelEntry) -> tuple[Mapping[str, Any], Sight]:
    # Pillow comes with the extra.
    from maxi_mlx.engine.vision.sight import SIGHTS

    settings = _read_settings(entry)
    config = read_object(entry.path / "config.json")
    config["tokenizer_config"] = read_object(entry.path / "tokenizer_config.json")
    return settings, SIGHTS[entry.model_type or ""](settings, config)


def _read_settings(entry: ModelEntry) -> Mapping[str, Any]:
    """Of images: newer folders have them in another file, among those of texts."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        try:
            settings = read_object(entry.path / name)
        except BrokenFile:
            continue
        inner = settings.get("image_processor", settings)
        if isinstance(inner, dict):
            return inner
    return {}
