"""Images made of numbers, questions about them, and the prompts that models read."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image as Pillow

from maxi_mlx.core.request import IMAGE_MARK, ChatPrompt, GenerateRequest, Image, Message
from tests.engine.asking import make_request

QUESTION = "What is it?"
SIZE = (70, 50)


def picture(seed: int = 0, size: tuple[int, int] = SIZE) -> Pillow.Image:
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Pillow.fromarray(pixels)


def file_of(image: Pillow.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def ask_about(
    *images: Pillow.Image, model: str, question: str = QUESTION, **changes: Any
) -> GenerateRequest:
    """A user's turn of images, and a question after them."""
    given = tuple(Image(file_of(image), "messages[0].content[0]") for image in images)
    message = Message(role="user", text=IMAGE_MARK * len(given) + question, images=given)
    prompt = ChatPrompt(messages=(message,))
    return make_request(prompt, model=model, top_logprobs=0, **changes)


def prompt_text(family: str, *images: Pillow.Image, question: str = QUESTION) -> str:
    """The same turn as the model reads it, with all of the images' tokens."""
    if family == "gemma3":
        shown = f"\n\n<start_of_image>{'<image_soft_token>' * 4}<end_of_image>\n\n" * len(images)
        return f"<bos><start_of_turn>user\n{shown}{question}<end_of_turn>\n<start_of_turn>model\n"
    if family == "gemma4":
        counts = [_within_70(*image.size) for image in images]
        shown = "".join(f"<|image>{'<|image|>' * count}<image|>" for count in counts)
        return f"<bos><start_of_turn>user\n{shown}{question}<end_of_turn>\n<start_of_turn>model\n"
    if family == "mistral3":
        return f"<s>[INST]{''.join(map(_row_by_row, images))}{question}[/INST]"
    if family.startswith("qwen"):
        shown = "".join(map(_near_its_size, images))
        return f"<|im_start|>user\n{shown}{question}<|im_end|>\n<|im_start|>assistant\n"
    shown = "".join(map(_in_crops, images))
    return f"<|im_start|>User:{shown}{question}<end_of_utterance>\nAssistant:"


def _row_by_row(image: Pillow.Image) -> str:
    ratio = max(*image.size, 64) / 64
    across, down = (-(-max(int(side / ratio), 1) // 16) for side in image.size)
    return "[IMG_BREAK]".join(["[IMG]" * across] * down) + "[IMG_END]"


def _within_70(width: int, height: int) -> int:
    factor = (70 / (width * height)) ** 0.5
    return int(factor * width) * int(factor * height)


def _near_its_size(image: Pillow.Image) -> str:
    """A token for 16 × 16 pixels."""
    count = round(image.width / 16) * round(image.height / 16)
    return f"<|vision_start|>{'<|image_pad|>' * count}<|vision_end|>"


def _in_crops(image: Pillow.Image) -> str:
    """Its longer side is brought to three crops."""
    across, down = image.size
    columns = 3 if across >= down else -(-3 * across // down)
    rows = 3 if down >= across else -(-3 * down // across)
    around, tokens = "<fake_token_around_image>", "<image>" * 4
    lines = [
        "".join(f"{around}<row_{row}_col_{column}>{tokens}" for column in range(1, columns + 1))
        for row in range(1, rows + 1)
    ]
    return "\n".join(lines) + f"\n\n{around}<global-img>{tokens}{around}"
