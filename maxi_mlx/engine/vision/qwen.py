"""Qwen's models that see: mlx-lm's language models with mlx-vlm's eyes, and places in images.

As `models` has them; beside that, a call takes the ``place`` of its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import mlx.core as mx
from mlx_lm.models import qwen2_vl, qwen3, qwen3_5, qwen3_5_moe, qwen3_moe, qwen3_vl, qwen3_vl_moe

from maxi_mlx.engine.vision.models import Settings, Weights
from maxi_mlx.engine.vision.places import Place, PlacedRope, Places, directions

_EYES = ("visual.", "model.visual.", "model.language_model.visual.", "vision_tower.")


class Placed:
    """The part that they share; the other is a model of ``library``, a module of mlx-lm's."""

    library: ClassVar[Any]
    block: ClassVar[Any] = None  # a layer's class that takes vectors of an image
    is_interleaved: ClassVar[bool] = True
    reads_images_whole = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(self.library.ModelArgs.from_dict(settings.config))  # type: ignore[call-arg]
        self._has_eyes = settings.eyes is not None
        if settings.eyes is None:
            return
        vision = settings.eyes.VisionConfig.from_dict(dict(settings.config["vision_config"]))
        self.vision_tower: Any = settings.eyes.VisionModel(vision)
        # No list and no dictionary, which would be taken for a part with weights.
        self._sizes = _Sizes(vision)
        self._places = Places()
        layers = self.language_model.model.layers  # type: ignore[attr-defined]
        for index in range(len(getattr(vision, "deepstack_visual_indexes", None) or ())):
            layers[index] = self.block(layers[index].args, self._places, index)
        axes = directions(sections_of(settings.config), is_interleaved=self.is_interleaved)
        for layer in layers:
            if "self_attn" in layer:
                rope = layer.self_attn.rope
                layer.self_attn.rope = PlacedRope(rope, self._places, axes)

    def __call__(
        self,
        inputs: mx.array,
        cache: Any = None,
        input_embeddings: mx.array | None = None,
        *,
        place: Place | None = None,
    ) -> mx.array:
        if place is None:
            return super().__call__(inputs, cache, input_embeddings)  # type: ignore[misc, no-any-return]
        self._places.now = place
        try:
            return super().__call__(inputs, cache, input_embeddings)  # type: ignore[misc, no-any-return]
        finally:
            self._places.now = Place()

    def embed(self, token_ids: mx.array) -> mx.array:
        vectors: mx.array = self.language_model.model.embed_tokens(token_ids)  # type: ignore[attr-defined]
        return vectors

    def look(self, pixels: mx.array) -> mx.array:
        """Where vectors come to the first layers too, they are behind the others, side by side."""
        size, merge, frames = self._sizes.patch, self._sizes.merge, self._sizes.frames
        high, wide = pixels.shape[1] // size, pixels.shape[2] // size
        patches = pixels.reshape(high // merge, merge, size, wide // merge, merge, size, 3)
        patches = patches.transpose(0, 3, 1, 4, 6, 2, 5)[:, :, :, :, :, None]
        patches = mx.repeat(patches, frames, axis=5).reshape(high * wide, -1)
        found = self.vision_tower(patches, mx.array([[1, high, wide]]))
        vectors, added = found if isinstance(found, tuple) else (found, ())
        return mx.concatenate([vectors, *added], axis=-1)

    def sanitize(self, weights: Weights) -> Weights:
        language: Weights = {}
        seeing: Weights = {}
        for name, value in weights.items():
            prefix = next((each for each in _EYES if name.startswith(each)), None)
            if prefix is None:
                language[name] = value
            else:
                seeing[f"vision_tower.{name.removeprefix(prefix)}"] = value
        language = super().sanitize(language)  # type: ignore[misc]
        return language | (self.vision_tower.sanitize(seeing) if self._has_eyes else {})


def sections_of(config: Mapping[str, Any]) -> list[int]:
    """How many frequencies turn with each direction."""
    text = config.get("text_config") or config
    for part in (text.get("rope_scaling"), text.get("rope_parameters"), config.get("rope_scaling")):
        if isinstance(part, dict) and "mrope_section" in part:
            return list(part["mrope_section"])
    raise ValueError("config.json names no mrope_section")


class _Sizes:
    """Of an image's patches: pixels of a side, patches a side that make one token, and frames of a
    film, of which an image is as many."""

    def __init__(self, vision: Any) -> None:
        self.patch = int(vision.patch_size)
        self.merge = int(vision.spatial_merge_size)
        self.frames = int(vision.temporal_patch_size)


class _Deep:
    """A layer to whose output an image's vectors come."""

    def __init__(self, args: Any, places: Places, index: int) -> None:
        super().__init__(*self.arguments(args, index))
        self._places = places
        self._index = index

    @staticmethod
    def arguments(args: Any, index: int) -> tuple[Any, ...]:  # noqa: ARG004
        return (args,)

    def __call__(self, *given: Any, **named: Any) -> mx.array:
        made: mx.array = super().__call__(*given, **named)  # type: ignore[misc]
        added = self._places.now.added
        return made + added[self._index].astype(made.dtype) if self._index < len(added) else made


class _DeepBlock(_Deep, qwen3.TransformerBlock):  # type: ignore[misc]
    pass


class _DeepMoeBlock(_Deep, qwen3_moe.Qwen3MoeDecoderLayer):  # type: ignore[misc]
    @staticmethod
    def arguments(args: Any, index: int) -> tuple[Any, ...]:
        return args, index


class Qwen2VL(Placed, qwen2_vl.Model):  # type: ignore[misc]
    """Qwen2-VL and Qwen2.5-VL."""

    library = qwen2_vl
    is_interleaved = False


class Qwen3VL(Placed, qwen3_vl.Model):  # type: ignore[misc]
    library = qwen3_vl
    block = _DeepBlock


class Qwen3VLMoe(Placed, qwen3_vl_moe.Model):  # type: ignore[misc]
    library = qwen3_vl_moe
    block = _DeepMoeBlock


class Qwen35(Placed, qwen3_5.Model):  # type: ignore[misc]
    library = qwen3_5


class Qwen35Moe(Placed, qwen3_5_moe.Model):  # type: ignore[misc]
    library = qwen3_5_moe


FAMILIES: Mapping[str, type] = {
    "qwen2_vl": Qwen2VL,
    "qwen2_5_vl": Qwen2VL,
    "qwen3_vl": Qwen3VL,
    "qwen3_vl_moe": Qwen3VLMoe,
    "qwen3_5": Qwen35,
    "qwen3_5_moe": Qwen35Moe,
}
