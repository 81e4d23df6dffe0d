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
from numpy.typing import NDArray
from PIL import Image as Pillow
from transformers import AutoTokenizer

from tests.vision.tiny import vlm_model


def processor_of(folder: Path) -> Any:
    """The processor in numpy that transformers has for the folder."""
    config = json.loads((folder / "config.json").read_text())
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    if config["model_type"] == "gemma3":
        from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

        return Gemma3ImageProcessorPil(**settings)
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    return SmolVLMImageProcessorPil(**settings)


def crops(folder: Path, image: Pillow.Image) -> NDArray[np.float32]:
    """(crops, 3, height, width)"""
    values = np.asarray(processor_of(folder)([image])["pixel_values"])
    return values.reshape(-1, *values.shape[-3:])


@contextmanager
def open_masks(is_image: Any) -> Iterator[None]:
    """mlx-vlm's Gemma 3 with transformers' masks: an image's tokens look at each other, not only
    back. ``is_image`` None: masks as they are."""
    from mlx_vlm.models.base import create_attention_mask
    from mlx_vlm.models.gemma3 import language

    if is_image is None:
        yield
        return
    # Images have texts between them.
    numbers = mx.cumsum((~is_image).astype(mx.int32))
    block = (numbers[:, None] == numbers[None]) & is_image[:, None] & is_image[None]

    def opened(vectors: Any, cache: Any, window_size: int | None = None) -> Any:
        mask = create_attention_mask(vectors, cache, window_size=window_size, return_array=True)
        return mask | block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "create_attention_mask", opened)
        yield


def greedy(
    folder: Path, text: str, images: Sequence[Pillow.Image], *, max_tokens: int
) -> list[int]:
    """``text`` is the prompt with all of the images' tokens."""
    from mlx_vlm.models.cache import make_prompt_cache

    config = json.loads((folder / "config.json").read_text())
    model = vlm_model(config)
    model.load_weights(str(folder / "model.safetensors"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    token_ids = mx.array([tokenizer.encode(text, add_special_tokens=False)])
    pixels = mx.array(np.concatenate([crops(folder, image) for image in images]))
    if config["model_type"] != "gemma3":
        pixels = pixels[None]
    mask = mx.ones_like(token_ids)
    vectors = model.get_input_embeddings(token_ids, pixels, mask=mask).inputs_embeds
    cache = make_prompt_cache(model.language_model)
    is_image = token_ids[0] == config["image_token_id"]
    with open_masks(is_image if config["model_type"] == "gemma3" else None):
        logits = model.language_model(token_ids, inputs_embeds=vectors, cache=cache).logits
    written: list[int] = []
    while len(written) < max_tokens:
        written.append(int(mx.argmax(logits[0, -1])))
        logits = model.language_model(mx.array([written[-1:]]), cache=cache).logits
    return written
