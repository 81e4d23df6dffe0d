"""What mlx-vlm's own model writes about images, fed by transformers' image processors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.quantized import quantize
from numpy.typing import NDArray
from PIL import Image as Pillow
from transformers import AutoTokenizer

from tests.vision.tiny import vlm_model


def processor_of(folder: Path) -> Any:
    """The processor in numpy that transformers has for the folder."""
    config = json.loads((folder / "config.json").read_text())
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    if config["model_type"].startswith("qwen"):
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
            Qwen2VLImageProcessorPil,
        )

        return Qwen2VLImageProcessorPil(**settings)
    if config["model_type"] == "mistral3":
        from transformers.models.pixtral.image_processing_pil_pixtral import (
            PixtralImageProcessorPil,
        )

        return PixtralImageProcessorPil(**settings)
    if config["model_type"] == "gemma4":
        from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil

        return Gemma4ImageProcessorPil(**settings)
    if config["model_type"] == "gemma3":
        from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

        return Gemma3ImageProcessorPil(**settings)
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    return SmolVLMImageProcessorPil(**settings)


def crops(folder: Path, image: Pillow.Image) -> NDArray[np.float32]:
    """(crops, 3, height, width)"""
    found = processor_of(folder)([image])
    values = np.asarray(found["pixel_values"])
    if "image_position_ids" in found:  # padded patches with their places
        places = np.asarray(found["image_position_ids"])[0]
        wide, high = places.max(axis=0) + 1
        patches = values[0][: wide * high].reshape(high, wide, 8, 8, 3)
        return patches.transpose(4, 0, 2, 1, 3).reshape(1, 3, high * 8, wide * 8)
    if "image_grid_thw" not in found:
        return values.reshape(-1, *values.shape[-3:])
    # Patches by fours, each with its three colours in two frames.
    high, wide = found["image_grid_thw"][0][1:]
    patches = values.reshape(high // 2, wide // 2, 2, 2, 3, 2, 8, 8)[:, :, :, :, :, 0]
    return patches.transpose(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, high * 8, wide * 8)


@contextmanager
def open_masks(is_image: Any) -> Iterator[None]:
    """mlx-vlm's Gemmas with transformers' masks: an image's tokens look at each other, not only
    back; in Gemma 4 in layers with a window alone. ``is_image`` None: masks as they are."""
    import mlx_vlm.models.gemma3.language
    import mlx_vlm.models.gemma4.language
    from mlx_vlm.models.base import create_attention_mask

    if is_image is None:
        yield
        return
    # Images have texts between them.
    numbers = mx.cumsum((~is_image).astype(mx.int32))
    block = (numbers[:, None] == numbers[None]) & is_image[:, None] & is_image[None]

    def opened(vectors: Any, cache: Any, window_size: int | None = None) -> Any:
        mask = create_attention_mask(vectors, cache, window_size=window_size, return_array=True)
        return mask | block

    def opened_near(
        vectors: Any, cache: Any, window_size: int | None = None, return_array: bool = False
    ) -> Any:
        if window_size is not None:
            return opened(vectors, cache, window_size)
        return create_attention_mask(vectors, cache, return_array=return_array)

    models = mlx_vlm.models
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.gemma3.language, "create_attention_mask", opened)
        patch.setattr(models.gemma4.language, "create_attention_mask", opened_near)
        yield


def embedded(
    model: Any,
    config: dict[str, Any],
    folder: Path,
    token_ids: mx.array,
    images: Sequence[Pillow.Image],
) -> dict[str, Any]:
    """What the language model takes of a prompt, as mlx-vlm's generator gives it."""
    mask = mx.ones_like(token_ids)
    if config["model_type"].startswith("qwen"):
        found = [processor_of(folder)([image]) for image in images]
        pixels = mx.array(np.concatenate([each["pixel_values"] for each in found]))
        grids = mx.array(np.concatenate([each["image_grid_thw"] for each in found]))
        features = model.get_input_embeddings(token_ids, pixels, image_grid_thw=grids, mask=mask)
        return {name: value for name, value in features.to_dict().items() if value is not None}
    if config["model_type"] == "gemma4":
        each = [mx.array(crops(folder, image)) for image in images]
        features = model.get_input_embeddings(token_ids, each)
        return {
            "inputs_embeds": features.inputs_embeds,
            "per_layer_inputs": features.per_layer_inputs,
        }
    pixels = mx.array(np.concatenate([crops(folder, image) for image in images]))
    if config["model_type"] == "mistral3":
        sizes = [pixels.shape[2:]] * len(images)
        features = model.get_input_embeddings(token_ids, pixels, image_sizes=sizes)
        return {"inputs_embeds": features.inputs_embeds}
    if config["model_type"] != "gemma3":
        pixels = pixels[None]
    features = model.get_input_embeddings(token_ids, pixels, mask=mask)
    return {"inputs_embeds": features.inputs_embeds}


def greedy(
    folder: Path, text: str, images: Sequence[Pillow.Image], *, max_tokens: int
) -> list[int]:
    """``text`` is the prompt with all of the images' tokens."""
    from mlx_vlm.models.cache import make_prompt_cache

    config = json.loads((folder / "config.json").read_text())
    model = vlm_model(config)
    if "quantization" in config:
        quantize(model, **config["quantization"])
    model.load_weights(str(folder / "model.safetensors"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    token_ids = mx.array([tokenizer.encode(text, add_special_tokens=False)])
    features = embedded(model, config, folder, token_ids, images)
    cache = make_prompt_cache(model.language_model)
    is_image = token_ids[0] == config["image_token_id"]
    with open_masks(is_image if config["model_type"].startswith("gemma") else None):
        logits = model.language_model(token_ids, cache=cache, **features).logits
    written: list[int] = []
    while len(written) < max_tokens:
        written.append(int(mx.argmax(logits[0, -1])))
        logits = model.language_model(mx.array([written[-1:]]), cache=cache).logits
    return written
