"""mlx-lm's language models with mlx-vlm's eyes, as one model that mlx-lm's loader fills.

Each is called as any of mlx-lm's is. ``look`` makes vectors of pixels, (crops, height, width, 3)
between -1 and 1 or so, in the scale of ``embed``'s. Without its modules, which mlx-vlm brings, a
model reads text alone. Lives on the device thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import gemma3, gemma4
from mlx_lm.utils import _get_classes

from maxi_mlx.engine.vision.pictures import FIRST_ID

Weights = dict[str, mx.array]


@dataclass(frozen=True, slots=True)
class Settings:
    """``config`` is config.json's; ``eyes`` mlx-vlm's package of the family, where it is there."""

    config: dict[str, Any]
    eyes: ModuleType | None

    @property
    def vlm(self) -> Any:
        """The same in mlx-vlm's form."""
        assert self.eyes is not None
        settings = self.eyes.ModelConfig.from_dict(dict(self.config))
        settings.text_config = self.eyes.TextConfig.from_dict(dict(self.config["text_config"]))
        settings.vision_config = self.eyes.VisionConfig.from_dict(self.config["vision_config"])
        return settings


@dataclass(frozen=True, slots=True)
class SettingsMaker:
    """What mlx-lm's loader takes for a class of settings."""

    eyes: ModuleType | None

    def from_dict(self, config: dict[str, Any]) -> Settings:
        return Settings(config, self.eyes)


class Idefics3(nn.Module):  # type: ignore[misc, name-defined]
    """Idefics 3 and SmolVLM. The language model is a Llama of mlx-lm's."""

    reads_images_whole = False

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        # An output layer of its own is the rule here, and Llama's default is none.
        tied = settings.config.get("tie_word_embeddings", False)
        text = {"tie_word_embeddings": tied, **settings.config["text_config"]}
        if text.get("model_type") in (None, "smolvlm", "idefics3"):
            text["model_type"] = "llama"
        model_class, args_class = _get_classes(text)
        self.language_model = model_class(args_class.from_dict(text))
        if settings.eyes is not None:
            from mlx_vlm.models.idefics3.idefics3 import Idefics3Connector

            vlm = settings.vlm
            self.vision_model = settings.eyes.VisionModel(vlm.vision_config)
            self.connector = Idefics3Connector(vlm)

    def __call__(
        self, inputs: mx.array, cache: Any = None, input_embeddings: mx.array | None = None
    ) -> mx.array:
        logits: mx.array = self.language_model(inputs, cache, input_embeddings)
        return logits

    def embed(self, token_ids: mx.array) -> mx.array:
        vectors: mx.array = self.language_model.model.embed_tokens(token_ids)
        return vectors

    def look(self, pixels: mx.array) -> mx.array:
        # Without a mask, since crops are whole: every patch has a place of its own.
        vectors = self.connector(self.vision_model(pixels)[0])
        return mx.flatten(vectors, 0, 1)

    def sanitize(self, weights: Weights) -> Weights:
        language: Weights = {}
        seeing: Weights = {}
        for name, value in weights.items():
            name = name.removeprefix("model.")
            if name.startswith(("vision_model.", "connector.")):
                seeing[name] = value
                continue
            name = name.removeprefix("text_model.").removeprefix("language_model.")
            is_inner = not name.startswith(("lm_head.", "model."))
            language[f"model.{name}" if is_inner else name] = value
        language = self.language_model.sanitize(language)
        named = {f"language_model.{name}": value for name, value in language.items()}
        return named | (self.vision_model.sanitize(seeing) if "vision_model" in self else {})

    @property
    def layers(self) -> Any:
        return self.language_model.layers


class Gemma3(gemma3.Model):  # type: ignore[misc]
    """Gemma 3. The language model scales what it embeds, and so would it an image's vectors. An
    image's tokens look at each other, those behind too, as in transformers (mlx-vlm lets them look
    back alone)."""

    reads_images_whole = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(gemma3.ModelArgs.from_dict(settings.config))
        if settings.eyes is not None:
            vlm = settings.vlm
            vlm.text_config.mm_tokens_per_image = settings.config.get("mm_tokens_per_image", 256)
            self.vision_tower = settings.eyes.VisionModel(vlm.vision_config)
            self.multi_modal_projector = settings.eyes.gemma3.Gemma3MultiModalProjector(vlm)

    def __call__(
        self, inputs: mx.array, cache: Any = None, input_embeddings: mx.array | None = None
    ) -> mx.array:
        if input_embeddings is not None:
            cache = [_OpenCache(entry, inputs[0] >= FIRST_ID) for entry in cache]
        logits: mx.array = super().__call__(inputs, cache, input_embeddings)
        return logits

    def embed(self, token_ids: mx.array) -> mx.array:
        vectors: mx.array = self.language_model.model.embed_tokens(token_ids)
        return vectors

    def look(self, pixels: mx.array) -> mx.array:
        vectors = self.multi_modal_projector(self.vision_tower(pixels)[0])
        scale = mx.array(self.language_model.args.hidden_size**0.5, mx.bfloat16)
        return mx.flatten(vectors, 0, 1) / scale.astype(vectors.dtype)

    def sanitize(self, weights: Weights) -> Weights:
        prefixes = ("vision_tower.", "multi_modal_projector.")
        seeing = {name: value for name, value in weights.items() if name.startswith(prefixes)}
        language: Weights = super().sanitize(weights)
        return language | (self.vision_tower.sanitize(seeing) if "vision_tower" in self else {})


class Gemma4(gemma4.Model):  # type: ignore[misc]
    """Gemma 4 with eyes of its own (not the unified one, which has none). In its larger models an
    image's tokens look at each other, in layers with a window alone."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(gemma4.ModelArgs.from_dict(settings.config))
        text = settings.config["text_config"]
        self.reads_images_whole = text.get("use_bidirectional_attention") == "vision"
        if settings.eyes is not None:
            vision = settings.eyes.VisionConfig.from_dict(settings.config["vision_config"])
            self.vision_tower = settings.eyes.VisionModel(vision)
            self.embed_vision = settings.eyes.gemma4.MultimodalEmbedder(
                embedding_dim=vision.hidden_size,
                text_hidden_size=text["hidden_size"],
                eps=vision.rms_norm_eps,
            )

    def __call__(
        self, inputs: mx.array, cache: Any = None, input_embeddings: mx.array | None = None
    ) -> mx.array:
        if input_embeddings is not None:
            is_image = inputs >= FIRST_ID
            if self.reads_images_whole:
                cache = [
                    _OpenCache(entry, is_image[0])
                    if layer.layer_type == "sliding_attention"
                    else entry
                    for layer, entry in zip(self.layers, cache, strict=False)
                ]
            # Each layer looks the tokens up once more, of an image's those of padding.
            inputs = mx.where(is_image, 0, inputs)
        logits: mx.array = super().__call__(inputs, cache, input_embeddings)
        return logits

    def embed(self, token_ids: mx.array) -> mx.array:
        vectors: mx.array = self.language_model.model.embed_tokens(token_ids)
        return vectors

    def look(self, pixels: mx.array) -> mx.array:
        vectors = self.embed_vision(self.vision_tower(pixels.transpose(0, 3, 1, 2)))
        scaled: mx.array = mx.flatten(vectors, 0, 1) / self.language_model.model.embed_scale
        return scaled

    def sanitize(self, weights: Weights) -> Weights:
        language: Weights = super().sanitize(weights)
        if "vision_tower" not in self:
            return language
        prefixes = ("vision_tower.", "embed_vision.")
        own = {name.removeprefix("model."): value for name, value in weights.items()}
        seeing = {name: value for name, value in own.items() if name.startswith(prefixes)}
        if not self.vision_tower.config.use_clipped_linears:
            bounds = ("input_max", "input_min", "output_max", "output_min")
            seeing = {name: value for name, value in seeing.items() if not name.endswith(bounds)}
        return language | seeing


class _OpenCache:
    """A layer's cache while an image is read: ``is_image`` are the tokens that see each other."""

    def __init__(self, cache: Any, is_image: mx.array) -> None:
        self._cache = cache
        self._is_image = is_image

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def make_mask(
        self,
        num_tokens: int,
        *,
        return_array: bool = False,  # noqa: ARG002  # it always does
        window_size: int | None = None,
    ) -> mx.array | None:
        mask = self._cache.make_mask(num_tokens, return_array=True, window_size=window_size)
        if mask is None:
            return None
        # The tokens that are being read are the last of the keys.
        num_before = mask.shape[-1] - num_tokens
        seen = self._is_image[:, None] & self._is_image[None]
        opened: mx.array = mask | mx.pad(seen, [(0, 0), (num_before, 0)])
        return opened


FAMILIES: Mapping[str, type] = {
    "idefics3": Idefics3,
    "smolvlm": Idefics3,
    "gemma3": Gemma3,
    "gemma4": Gemma4,
}
