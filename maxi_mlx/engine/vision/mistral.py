"""Mistral's models that see (Mistral Small 3.1 and later, Ministral 3, Magistral), as `models`."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
from mlx_lm.models import mistral3

from maxi_mlx.engine.vision.models import Settings, Weights

_PARTS = ("patch_conv", "ln_pre", "transformer")


class Mistral3(mistral3.Model):  # type: ignore[misc]
    reads_images_whole = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(mistral3.ModelArgs.from_dict(settings.config))
        if settings.eyes is not None:
            vlm = settings.vlm
            # mlx-vlm keeps the table of a side's places; larger images than this have none.
            self.vision_tower = settings.eyes.VisionModel(vlm.vision_config)
            self.multi_modal_projector = settings.eyes.mistral3.Mistral3MultiModalProjector(vlm)
            self._layer = int(vlm.vision_feature_layer)

    def embed(self, token_ids: mx.array) -> mx.array:
        vectors: mx.array = self.language_model.model.embed_tokens(token_ids)
        return vectors

    def look(self, pixels: mx.array) -> mx.array:
        _, layers = self.vision_tower(pixels, output_hidden_states=True)
        size = pixels.shape[1], pixels.shape[2]
        vectors: mx.array = self.multi_modal_projector(layers[self._layer][0], [size])
        return vectors

    def sanitize(self, weights: Weights) -> Weights:
        prefixes = ("vision_tower.", "multi_modal_projector.")
        own = {name.removeprefix("model."): value for name, value in weights.items()}
        seeing = {_named(name): own[name] for name in own if name.startswith(prefixes)}
        language: Weights = super().sanitize(weights)
        return language | (self.vision_tower.sanitize(seeing) if "vision_tower" in self else {})


def _named(name: str) -> str:
    """As mlx-vlm has it, with a level more than transformers."""
    tower, _, rest = name.partition(".")
    if tower == "vision_tower" and rest.startswith(_PARTS):
        return f"vision_tower.vision_model.{rest}"
    return name


FAMILIES: Mapping[str, type] = {"mistral3": Mistral3}
